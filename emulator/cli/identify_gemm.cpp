#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "identify_commands.hpp"
#include "stickybit/identify/gemm_search.hpp"

namespace stickybit::cli {
namespace {

struct gemm_request {
  std::vector<std::string> files;
  std::string producer, unit;
  bool json = false, markdown = false;
};

constexpr int listed_groups = 6;

/// The fits, one of each group: "the same bits by ...".
std::vector<gemm_order const*> one_of_each(gemm_search_result const& r) {
  std::vector<gemm_order const*> orders;
  for (gemm_search_result::fit const& f : r.fits)
    if (f.group == int(orders.size())) orders.push_back(&f.order);
  return orders;
}

void print_result(captured_product const& p, gemm_search_result const& r) {
  const std::vector<gemm_order const*> orders = one_of_each(r);
  if (r.named()) {
    fmt::print("{}: {}: 0 mismatches of {}\n", p.name, text_of(*orders.front(), p.output), r.elements);
    for (std::size_t i = 1; i < orders.size() && i <= listed_groups; ++i) fmt::print("  this data cannot tell it from: {}\n", text_of(*orders[i], p.output));
    if (orders.size() > listed_groups + 1)
      fmt::print("  and from {} more{} (--json lists all)\n", orders.size() - listed_groups - 1, r.one_split() ? ", which all have the same slices and partial sums of the same format" : "");
  } else if (!r.fits.empty()) {
    fmt::print("{}: unknown; at least {} orders give all of {} elements, among them {}\n", p.name, orders.size(), r.elements, text_of(*orders.front(), p.output));
  } else if (r.closest) {
    fmt::print("{}: unknown; closest: {}: {} mismatches of {}\n", p.name, text_of(*r.closest, p.output), r.closest_mismatches, r.elements);
  } else {
    fmt::print("{}: unknown; nothing to compare\n", p.name);
  }
}

nlohmann::json json_of(captured_product const& p, gemm_search_result const& r) {
  nlohmann::json fits = nlohmann::json::array();
  for (gemm_search_result::fit const& f : r.fits) fits.push_back({{"order", text_of(f.order, p.output)}, {"group", f.group}, {"units", units_like(f.order.unit)}});
  nlohmann::json j{{"result", p.name},     {"named", r.named()},          {"elements", r.elements}, {"orders_tried", r.orders_tried},
                   {"m", p.rows},          {"n", p.columns},              {"k", p.k},               {"groups", r.groups()},
                   {"kernels", p.kernels}, {"fits", fits}};
  if (r.named()) j["order"] = text_of(r.fits.front().order, p.output);
  if (r.closest) j["closest"] = {{"order", text_of(*r.closest, p.output)}, {"mismatches", r.closest_mismatches}};
  return j;
}

/// "void cutlass::Kernel2<name>(name::Params) + void cublasLt::splitKreduce_kernel<...>(...)" as "name + splitKreduce_kernel".
std::string short_kernels(std::string const& recorded) {
  std::string text;
  for (std::size_t at = 0; at < recorded.size();) {
    const std::size_t next = std::min(recorded.find(" + ", at), recorded.size());
    std::string name = recorded.substr(at, next - at);
    at = next + 3;
    if (const std::size_t inner = name.find("Kernel2<"); inner != name.npos) name = name.substr(inner + 8);
    if (name.starts_with("void ")) name = name.substr(5);
    name = name.substr(0, name.find_first_of("<>("));
    if (const std::size_t scope = name.rfind("::"); scope != name.npos) name = name.substr(scope + 2);
    text += (text.empty() ? "" : " + ") + name;
  }
  return text;
}

void print_markdown(captured_product const& p, gemm_search_result const& r) {
  const std::string found = r.named() ? text_of(r.fits.front().order, p.output) : r.closest ? fmt::format("unknown; closest has {} mismatches", r.closest_mismatches) : "unknown";
  fmt::print("| {}×{}×{} | {} | {} | {} | {} | {} |\n", p.rows, p.columns, p.k, p.name, short_kernels(p.kernels), found, r.elements, r.named() ? fmt::format("{}", r.groups() - 1) : "");
}

/// What came of one file's results; true where all are named.
bool run_file(gemm_request const& o, std::string const& path, nlohmann::json& results) {
  const tensor_file file = tensor_file::load(path);
  bool all = true, any = false;
  for (captured_product const& p : read_captured_products(file)) {
    if (!o.producer.empty() && p.name != o.producer && !p.name.starts_with(o.producer + ".")) continue;
    any = true;
    const gemm_search_result r = [&] {
      terminal_progress bar(p.name);
      return search_gemm(p, {.unit = o.unit.empty() ? std::nullopt : std::optional(o.unit), .report = bar.report()});
    }();
    all &= r.named();
    if (o.json) results.push_back(json_of(p, r));
    else if (o.markdown) print_markdown(p, r);
    else print_result(p, r);
  }
  if (!any) throw file_error(file.name(), o.producer, "a result of this producer", "none");
  return all;
}

int run(gemm_request const& o) {
  bool all = true;
  nlohmann::json results = nlohmann::json::array();
  if (o.markdown) fmt::print("| M×N×K | result | kernels | order | elements, 0 mismatches | other orders with the same bits |\n| --- | --- | --- | --- | --- | --- |\n");
  for (std::string const& file : o.files) {
    if (o.files.size() > 1 && !o.json && !o.markdown) fmt::print("{}:\n", file);
    all &= run_file(o, file, results);
  }
  if (o.json) std::cout << results.dump(2) << "\n";
  return all ? 0 : 1;
}

}  // namespace

void add_identify_gemm(CLI::App& identify, int& status) {
  auto o = std::make_shared<gemm_request>();
  CLI::App* command = identify.add_subcommand("gemm", "in which order, by which unit and in which formats a library added a matrix product; status 0 where every result is named, 1 where one is unknown");
  command->add_option("FILE", o->files, "safetensors files with a [M,K], b [N,K] (BF16, F16 or F32), perhaps c, and d or <producer>.d_f32, .d_bf16, .d_f16")->required();
  command->add_option("--producer", o->producer, "only this one");
  command->add_option("--unit", o->unit, "only this unit: one that `stickybit models` lists, or fp32.fma");
  command->add_flag("--json", o->json, "all that fits, as JSON");
  command->add_flag("--markdown", o->markdown, "a table of all results");
  command->callback([o, &status] { status = run(*o); });
}

}  // namespace stickybit::cli
