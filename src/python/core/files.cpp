#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>

#include "arrays.hpp"
#include "bindings.hpp"
#include "interruptible.hpp"
#include "stickybit/bias/compare.hpp"
#include "stickybit/bias/statistics.hpp"
#include "stickybit/identify/validate.hpp"
#include "stickybit/tensor_file/tensor_file.hpp"

namespace stickybit::python {
namespace {

using namespace nb::literals;

dtype dtype_by_name(std::string const& text) {
  return named(all_dtypes, [](dtype t) { return name_of(t); }, text, "dtype");
}

/// [(name, dtype, codes)] and metadata as the file that they are.
tensor_file file_of(std::string const& name, nb::dict const& metadata, nb::list const& tensors) {
  tensor_file file(name);
  for (auto [key, value] : metadata) file.metadata[nb::cast<std::string>(key)] = nb::cast<std::string>(value);
  for (nb::handle item : tensors) {
    const auto entry = nb::cast<nb::tuple>(item);
    const auto codes = nb::cast<any_array>(entry[2], false);
    tensor t{dtype_by_name(nb::cast<std::string>(entry[1])), {}, {}};
    for (std::size_t size : shape_of(codes)) t.shape.push_back(std::int64_t(size));
    const auto* bytes = static_cast<std::byte const*>(codes.data());
    t.bytes.assign(bytes, bytes + codes.nbytes());
    file.add(nb::cast<std::string>(entry[0]), std::move(t));
  }
  return file;
}

nb::object codes_of_tensor(tensor const& t) {
  const std::vector<std::size_t> shape = sizes_of(t.shape);
  switch (size_bytes(t.type)) {
    case 1: return numpy_of<std::uint8_t>(t.elements<std::uint8_t>(), shape);
    case 2: return numpy_of<std::uint16_t>(t.elements<std::uint16_t>(), shape);
    default: return numpy_of<std::uint32_t>(t.elements<std::uint32_t>(), shape);
  }
}

/// (metadata, [(name, dtype, codes)], [(name, type) of those that were left unread])
nb::tuple load(std::string const& path) {
  const tensor_file file = [&] {
    nb::gil_scoped_release released;
    return tensor_file::load(path);
  }();
  nb::dict metadata;
  for (auto const& [key, value] : file.metadata) metadata[key.c_str()] = value;
  nb::list tensors, unread;
  for (named_tensor const& t : file.tensors()) {
    const std::string_view type = name_of(t.value.type);
    tensors.append(nb::make_tuple(t.name, nb::str(type.data(), type.size()), codes_of_tensor(t.value)));
  }
  for (unread_tensor const& t : file.unread()) unread.append(nb::make_tuple(t.name, t.type_name));
  return nb::make_tuple(metadata, tensors, unread);
}

tensor tensor_of(std::string const& type, any_array const& codes) {
  tensor t{dtype_by_name(type), {}, {}};
  for (std::size_t size : shape_of(codes)) t.shape.push_back(std::int64_t(size));
  const auto* bytes = static_cast<std::byte const*>(codes.data());
  t.bytes.assign(bytes, bytes + codes.nbytes());
  return t;
}

nb::dict compare_arrays(std::string const& type, any_array const& left, any_array const& right, bool nan_bits) {
  const tensor l = tensor_of(type, left), r = tensor_of(type, right);
  const comparison c = interruptible(left.size() < 1'000'000, [&](stop_request const&) { return compare(l, r, nan_bits); });
  nb::dict d, histogram;
  for (auto const& [distance, count] : c.ulp_histogram) histogram[nb::int_(distance)] = count;
  d["total"] = c.total;
  d["mismatches"] = c.mismatches;
  d["first"] = c.first ? nb::object(nb::make_tuple(c.first->index, c.first->left, c.first->right)) : nb::none();
  d["first_text"] = c.first ? fmt::format("{}: {} against {}", position_text(l.shape, c.first->index), code_text(l.type, c.first->left), code_text(l.type, c.first->right)) : std::string();
  d["ulp_histogram"] = histogram;
  d["left_larger"] = c.left_larger;
  d["right_larger"] = c.right_larger;
  d["nan_against_number"] = c.nan_against_number;
  d["sign_test_p"] = sign_test(c.left_larger, c.right_larger);
  return d;
}

nb::list validate_file(tensor_file const& file, std::optional<std::string> const& unit, nb::dict const& overrides, bool nan_bits, std::string const& engine_name) {
  validate_options how;
  how.unit = unit;
  how.nan_bits = nan_bits;
  how.how = engine_by_name(engine_name);
  if (overrides.contains("layout")) how.problem.layout = parse_layout(nb::cast<std::string>(overrides["layout"]));
  if (overrides.contains("causal")) how.problem.causal = nb::cast<bool>(overrides["causal"]);
  if (overrides.contains("softmax_scale")) how.problem.softmax_scale = nb::cast<double>(overrides["softmax_scale"]);
  if (overrides.contains("heads")) how.problem.call_heads = nb::cast<std::int64_t>(overrides["heads"]);
  if (overrides.contains("sms")) how.problem.sm_count = nb::cast<std::int64_t>(overrides["sms"]);
  const std::vector<verdict> verdicts = interruptible(false, [&](stop_request const& stop) {
    how.report = stop.report();
    return validate(file, how);
  });
  nb::list all;
  for (verdict const& v : verdicts) {
    nb::dict d;
    d["tensor"] = v.tensor;
    d["total"] = v.total;
    d["mismatches"] = v.mismatches;
    d["first"] = v.first;
    d["note"] = v.note;
    d["skipped"] = v.skipped;
    d["place"] = v.place;
    all.append(d);
  }
  return all;
}

}  // namespace

void bind_files(nb::module_& m) {
  m.def("load", &load, "path"_a);
  m.def("save", [](std::string const& path, nb::dict const& metadata, nb::list const& tensors) {
    const tensor_file file = file_of(path, metadata, tensors);
    nb::gil_scoped_release released;
    file.save(path);
  }, "path"_a, "metadata"_a, "tensors"_a);
  m.def("compare", &compare_arrays, "dtype"_a, "left"_a, "right"_a, "nan_bits"_a);
  m.def("validate_path", [](std::string const& path, std::optional<std::string> const& unit, nb::dict const& overrides, bool nan_bits, std::string const& engine) {
    return validate_file(tensor_file::load(path), unit, overrides, nan_bits, engine);
  }, "path"_a, "unit"_a.none(), "overrides"_a, "nan_bits"_a, "engine"_a);
  m.def("validate_tensors", [](nb::dict const& metadata, nb::list const& tensors, std::optional<std::string> const& unit, nb::dict const& overrides, bool nan_bits, std::string const& engine) {
    return validate_file(file_of("capture", metadata, tensors), unit, overrides, nan_bits, engine);
  }, "metadata"_a, "tensors"_a, "unit"_a.none(), "overrides"_a, "nan_bits"_a, "engine"_a);
  // A tensor of any library that has __dlpack__: its memory as bytes, its type in DLPack's numbers, its shape.
  m.def("from_dlpack", [](nb::ndarray<nb::ro, nb::c_contig> a) {
    nb::list shape;
    for (std::size_t size : shape_of(a)) shape.append(size);
    const auto type = a.dtype();
    if (a.device_type() != nb::device::cpu::value) return nb::make_tuple(nb::none(), int(type.code), int(type.bits), shape, a.device_type());
    std::vector<std::uint8_t> bytes(a.nbytes());
    if (!bytes.empty()) std::memcpy(bytes.data(), a.data(), bytes.size());
    return nb::make_tuple(numpy_of<std::uint8_t>(std::move(bytes)), int(type.code), int(type.bits), shape, a.device_type());
  }, "x"_a);
  // The other way: codes as a tensor of that DLPack type, for from_dlpack() of any library. The codes are kept alive by it.
  m.def("as_dlpack", [](any_array codes, int code, int bits) {
    std::vector<std::size_t> shape = shape_of(codes);
    auto* kept = new any_array(codes);
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<any_array*>(p); });
    return nb::cast(nb::ndarray<nb::array_api>(const_cast<void*>(codes.data()), shape.size(), shape.data(), owner, nullptr, {std::uint8_t(code), std::uint8_t(bits), 1}));
  }, "codes"_a, "type_code"_a, "bits"_a);
}

}  // namespace stickybit::python
