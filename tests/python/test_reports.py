"""Explanations, comparison, validation, studies and identification: the command's words and numbers."""

import json

import numpy as np
import pytest

import stickybit as sb


def test_explanations_say_what_the_command_says(golden, command):
    path = golden / "gauss_s64_d128_c1.safetensors"
    call = sb.load(path).call()
    for tensor, at in (("o", (1, 5, 3)), ("dq", (0, 7, 2)), ("dk", (1, 9, 100)), ("lse", (0, 63))):
        for level in ("paragraph", "screen"):
            told, error, status = command("explain", "attention", path, "--schedule", "fa3", "--tensor", tensor, "--at", ",".join(map(str, at)), "--level", level)
            account = sb.explain.attention(**call, schedule="fa3", tensor=tensor, at=at)
            assert status == 0 and account.text(level) == told, error
        assert account.replay() and str(account) == told
    assert sb.explain.add(["-2.40625", "-2.3125"]).text() == command("explain", "add", "--", "-2.40625", "-2.3125")[0]
    assert sb.explain.cast(1.00390625, "bf16", "toward_positive").text() == command("explain", "cast", "1.00390625", "--rounding", "toward_positive")[0]
    assert sb.explain.exp2(0.3).text() == command("explain", "exp2", "0.3")[0]
    assert sb.explain.dot([1.0, 0.5], [2.0, 3.0], unit="sm80.mma.bf16.f32").text() == command("explain", "dot", "--unit", "sm80.mma.bf16.f32", "--a", "1,0.5", "--b", "2,3")[0]
    assert sb.explain.softmax([1.0, 2.0, 2.0], schedule="fa3").text() == command("explain", "softmax", "--schedule", "fa3", "--scores", "1,2,2")[0]


def test_explanations_in_a_notebook_and_in_files(golden, tmp_path):
    account = sb.explain.attention(**sb.load(golden / "gauss_s64_d128_c1.safetensors").call(), schedule="fa3", at=(1, 5, 3))
    shown = account._repr_html_()
    assert "<svg" in shown and "<pre" in shown and len(shown) < 40_000 and "<html" not in shown
    assert account.result.code == account.code and len(account.steps()) == len(account) and account.steps()[-1].label == "O"
    account.save_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>") or "<html" in (tmp_path / "page.html").read_text()[:200]
    assert "map" in account.html(surroundings=True) and account.svg().startswith("<svg") or account.svg().startswith("<?xml")
    assert "tikzpicture" in account.tikz()
    with pytest.raises(ValueError, match="picture"):
        account.svg("nonsense")
    with pytest.raises(ValueError, match="at: "):
        sb.explain.attention(**sb.load(golden / "gauss_s64_d128_c1.safetensors").call(), schedule="fa3", at=(1,))
    with pytest.raises(IndexError):
        sb.explain.attention(**sb.load(golden / "gauss_s64_d128_c1.safetensors").call(), schedule="fa3", at=(1, 5, 900))


def test_differences(golden, command):
    path = golden / "gauss_s64_d128_c1.safetensors"
    call = sb.load(path).call()
    told, _, status = command("explain", "--diff", "fa3", "fa2-torch", path)
    assert (told, status) == (str(sb.explain.difference("fa3", "fa2-torch", call.pop("q"), call.pop("k"), call.pop("v"), call.pop("do"), **call)), 1)


def test_validation_and_comparison_equal_the_command(golden, command):
    for path in (golden / "gauss_s64_d128_c1.safetensors", golden / "gemm_128_128_64.safetensors", golden / "one_b1_q1_k200_h2x2_d64_c0.safetensors"):
        told, _, status = command("validate", path)
        found = sb.validate(path)
        assert str(found) + "\n" == told and found.passed() == (status == 0) and "<table>" in found._repr_html_()
        assert str(sb.validate(sb.load(path))) + "\n" == told
    call = sb.load(golden / "gauss_s64_d128_c1.safetensors")
    told = command("compare", f"{golden / 'gauss_s64_d128_c1.safetensors'}:fa3.o", f"{golden / 'gauss_s64_d128_c1.safetensors'}:cudnn.o")[0]
    assert str(sb.compare(call["fa3.o"], call["cudnn.o"], name="fa3.o")) in told
    changed = call["fa3.o"].copy()
    changed[0, 0, 0] += 1
    broken = sb.Capture({**call, "fa3.o": changed}, call.metadata)
    assert not sb.validate(broken).passed() and sb.validate(broken).earliest.tensor == "fa3.o" and sb.validate(broken).mismatches == 1


def test_files_come_back(tmp_path, golden):
    call = sb.load(golden / "gauss_s64_d128_c1.safetensors")
    call.save(tmp_path / "copy.safetensors")
    again = sb.load(tmp_path / "copy.safetensors")
    assert again.metadata == call.metadata and list(again) == list(call) and all(np.array_equal(again[n].view(np.uint8), call[n].view(np.uint8)) for n in call)
    with pytest.raises(TypeError, match="x: "):
        sb.save(tmp_path / "bad.safetensors", {"x": np.zeros(3, np.complex64)})


def test_studies_equal_the_command(golden, command, tmp_path):
    path, target = golden / "gauss_s64_d128_c1.safetensors", tmp_path / "report.json"
    call = sb.load(path)
    for ours, theirs in ((sb.study.gproj(call, fixes=["none", "gproj"]), ["study", "gproj", path, "--fixes", "none", "gproj"]),
                         (sb.study.isolation(call, schedule="fa3"), ["study", "isolation", path, "--schedule", "fa3"]),
                         (sb.predict(call, schedule="fa3"), ["predict", path, "--schedule", "fa3"]),
                         (sb.bias(call, schedule="fa3", report=False), ["bias", path, "--schedule", "fa3", "--no-report"])):
        told, error, status = command(*theirs, "--json", target)
        assert status == ours.status == 0, error
        expected = json.loads(target.read_text())

        def without_files(x):
            if isinstance(x, dict):
                return {k: without_files(v) for k, v in x.items() if k != "file"}
            return [without_files(v) for v in x] if isinstance(x, list) else x

        assert without_files(ours.data) == without_files(expected)
        assert str(ours) == told
    assert "<html" in sb.bias(call, schedule="fa3", tensors="o", report=False).html()
    with pytest.raises(ValueError, match="fa9"):
        sb.study.gproj(call, schedule="fa9")


def test_identification(golden):
    found = sb.identify.unit(lambda a, b, c: sb.dot("sm80.mma.bf16.f32", a, b, c), check=500)
    assert found and "sm80.mma.bf16.f32" in found.known and "sm90.wgmma.bf16.f32" not in found.known
    order = sb.identify.gemm(golden / "gemm" / "bf16_128_128_128.safetensors")
    assert order.status == 0 and "slices=2" in order.text and order.data
    report = sb.identify.attention(golden / "gauss_s64_d128_c1.safetensors", search=False, producer="fa3")
    assert report.status == 0 and "fa3" in report.text


def test_models_and_reports():
    assert {"machines", "schedules", "fixes"} <= set(sb.models().data) and "fa3" in str(sb.models())
    assert sb.reports().data
