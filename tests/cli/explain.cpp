// Accounts of attention as a user asks for them: tensors, differences, pictures.
#include <fstream>
#include <sstream>

#include "cli/command.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace stickybit;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

const std::string ties = "'" + std::string(STICKYBIT_GOLDEN_DIR) + "/h200/ties_s384_d64_c0.safetensors'";

struct explain_fixture {
  temporary_folder folder;

  outcome run(std::string const& words) { return run_command("explain " + words, (folder.path() / "stderr").string()); }
  std::string path(std::string const& name) { return (folder.path() / name).string(); }
  std::string content(std::string const& name) {
    std::ifstream in(path(name));
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
};

}  // namespace

TEST_CASE_METHOD(explain_fixture, "command: explain grad and attention for every tensor, with fixes and units", "[cli][golden]") {
  for (const char* words : {"lse --at 1,200", "delta --at 1,200", "lse_log2 --at 0,383", "s --at 0,3,4", "p --at 0,3,4", "dp --at 0,3,4", "ds --at 0,3,4", "dq --at 0,3,4", "dk --at 0,3,4", "dv --at 0,0,3,4", "o --at 0,1,3,4"}) {
    INFO(words);
    const outcome r = run("attention " + ties + " --schedule fa2-torch --level paragraph --tensor " + words);
    CHECK(r.status == 0);
    CHECK_THAT(r.output, Contains(" by fa2-torch is "));
  }
  CHECK_THAT(run("grad " + ties + " --schedule fa3 --fix gproj --at 0,17,5 --level paragraph").output, Contains("by fa3 with gproj is"));
  CHECK_THAT(run("attention " + ties + " --schedule fa3 --unit sm80.mma.bf16.f32 --at 0,17,5 --level paragraph").output, Contains("O[head 0, row 17, column 5]"));
  CHECK_THAT(run("softmax --schedule fa3 --scores 40,20,60,35 --values 0.5,1,2,-0.25").output, Contains("result 1.796875 (0x3FE6)"));
}

TEST_CASE_METHOD(explain_fixture, "command: explain --diff: status 1 and the step where they part, 0 where they do not", "[cli][golden]") {
  const outcome parted = run("attention " + ties + " --diff fa2 fa2-torch");
  CHECK(parted.status == 1);
  CHECK_THAT(parted.output, Contains("lse: 75 mismatches of 768") && Contains("fa2 fuses the multiplication") && Contains("Errors against the mathematical value: fa2"));
  CHECK(run("attention " + ties + " --diff fa3 capture:fa3").status == 0);
  CHECK(run("--diff fa3 capture:fa3 " + ties).status == 0);
  const outcome whole = run("--diff fa3 fa3+gproj " + ties);
  CHECK(whole.status == 1);
  CHECK_THAT(whole.output, Contains("dv: 0 mismatches") && Contains("dK["));
  CHECK_THAT(run("softmax --scores 1,2,3.7 --diff fa2 fa2-torch").output, Contains("fa2 fuses"));
  CHECK(run("--diff fa3 banana " + ties).status == 2);
  CHECK(run("--diff capture:fa3 capture:cudnn " + ties).status == 2);
  CHECK(run("").status == 2);
  CHECK(run("attention " + ties + " --schedule fa3").status == 2);
}

TEST_CASE_METHOD(explain_fixture, "command: explain writes a page, an SVG and a TikZ picture, whole or not at all", "[cli][golden]") {
  const std::string element = "attention " + ties + " --schedule fa3 --at 0,17,5 --level paragraph";
  CHECK(run(element + " --html '" + path("o.html") + "' --svg '" + path("o.svg") + "' --tex '" + path("o.tex") + "'").status == 0);
  CHECK_THAT(content("o.html"), StartsWith("<!doctype html>") && Contains("O[head 0, row 17, column 5] by fa3"));
  CHECK_THAT(content("o.svg"), Contains("<svg") && Contains("</svg>"));
  CHECK_THAT(content("o.tex"), Contains("\\begin{tikzpicture}") && Contains("\\end{tikzpicture}"));
  for (const char* figure : {"shares", "rounding", "error", "row", "block", "map", "attribution"}) {
    INFO(figure);
    CHECK(run(element + " --figure " + figure + " --svg '" + path(figure) + "'").status == 0);
    CHECK_THAT(content(figure), Contains("</svg>"));
  }
  const outcome none = run("attention " + ties + " --schedule fa3 --tensor lse --at 0,17 --figure map --svg '" + path("none.svg") + "'");
  CHECK(none.status == 2);
  CHECK_THAT(none.error, Contains("--figure map"));
  CHECK_FALSE(std::ifstream(path("none.svg")).good());
  CHECK(run(element + " --html " + ties).status == 2);
  CHECK(run(element + " --html '" + path("x") + "' --svg '" + path("x") + "'").status == 2);
  CHECK(run("dot --a 1,0x1p-25 --b 1,1 --svg '" + path("dot.svg") + "'").status == 0);
  CHECK_THAT(content("dot.svg"), Contains("The tensor-core step that gives d, bit by bit"));
}
