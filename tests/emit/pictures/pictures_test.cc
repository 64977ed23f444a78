// Compares the pictures of a mesh, an array, the memory of a device and the
// rules of a plan with testdata/tables/emit_pictures.txt.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "emit/pictures/line.h"
#include "tables.h"

namespace shardc {
namespace {

std::vector<int64_t> NumbersOf(const std::string& text) {
  std::istringstream in(text);
  std::vector<int64_t> out;
  for (int64_t number = 0; in >> number;) out.push_back(number);
  return out;
}

// Returns the mesh of "dp 2 tp 4".
Mesh MeshOf(const TableCase& given) {
  Mesh out;
  std::istringstream in(given.Text("mesh"));
  std::string name;
  for (int64_t size = 0; in >> name >> size;) {
    out.axes.push_back({name, size});
    out.devices *= size;
  }
  const auto hosts = NumbersOf(given.Text("hosts"));
  if (!hosts.empty()) out.processes = hosts.front();
  out.dcn = NumbersOf(given.Text("dcn"));
  for (const int64_t factor : out.dcn) out.slices *= factor;
  return out;
}

// Returns the spec of "dp+tp - tp".
Spec SpecOf(const std::string& text) {
  Spec out;
  std::istringstream in(text);
  for (std::string group; in >> group;) {
    out.emplace_back();
    std::istringstream names(group);
    for (std::string name; std::getline(names, name, '+');) {
      if (name != "-") out.back().push_back(name);
    }
  }
  return out;
}

PictureStyle StyleOf(const TableCase& given) {
  const std::string text = given.Text("style");
  PictureStyle out;
  out.ascii = text.find("ascii") != std::string::npos;
  out.color = text.find("color") != std::string::npos;
  const auto width = NumbersOf(given.Text("width"));
  if (!width.empty()) out.width = width.front();
  return out;
}

std::string ArrayOf(const TableCase& given) {
  picture::ArrayInput input;
  input.mesh = MeshOf(given);
  input.spec = SpecOf(given.Text("spec"));
  const auto sizes = NumbersOf(given.Text("sizes"));
  input.dims = picture::DimsOf(
      sizes.empty() ? std::nullopt : std::optional(sizes), input.spec);
  if (const auto dims = NumbersOf(given.Text("drawn")); dims.size() == 2) {
    input.drawn = {static_cast<size_t>(dims[0]), static_cast<size_t>(dims[1])};
  }
  if (const auto at = NumbersOf(given.Text("placed on tp")); !at.empty()) {
    input.placement = ReadPlacement{"tp", at.front()};
  }
  return ArrayText(picture::ArrayPicture(std::move(input)),
                   {"layers.0.up", given.Text("spec")}, StyleOf(given));
}

// Returns the picture of the memory of a device. Each line of the case
// describes a bar: its name, the bytes of its three parts and, if they differ,
// the bytes of the emptiest device.
std::string MemoryOf(const TableCase& given) {
  MemoryBars memory;
  memory.parts = {{'P', "parameters"}, {'G', "gradients"}, {'O', "optimizer"}};
  const auto devices = NumbersOf(given.Text("devices"));
  if (!devices.empty()) memory.devices = devices.front();
  const auto budget = NumbersOf(given.Text("budget"));
  if (!budget.empty()) memory.budget = budget.front();
  if (const std::string text = given.Text("unknown"); !text.empty()) {
    memory.unknown = {text};
  }
  std::istringstream lines(given.Text("memory"));
  for (std::string line; std::getline(lines, line);) {
    const size_t end = line.find(' ');
    MemoryBar bar{line.substr(0, end), NumbersOf(line.substr(end)), {}};
    if (bar.parts.size() > memory.parts.size()) {
      bar.least = bar.parts.back();
      bar.parts.pop_back();
    }
    memory.bars.push_back(std::move(bar));
  }
  return MemoryText(memory, StyleOf(given));
}

// Returns the picture of the rules. Each line of the case describes a rule: its
// pattern, the parameters and bytes that it wins, the parameters that it
// matches, and the rule that shadows it; -1: not known.
std::string RulesOf(const TableCase& given) {
  picture::Coverage coverage;
  std::istringstream lines(given.Text("rules"));
  for (std::string line; std::getline(lines, line);) {
    const size_t end = line.find(' ');
    const auto numbers = NumbersOf(line.substr(end));
    REQUIRE(numbers.size() == 4);
    picture::RuleLine rule;
    rule.match = line.substr(0, end);
    rule.won = numbers[0];
    rule.bytes = numbers[1];
    if (numbers[2] >= 0) rule.found = numbers[2];
    if (numbers[3] >= 0) rule.shadowed_by = static_cast<size_t>(numbers[3]);
    coverage.bytes += rule.bytes;
    coverage.most = std::max(coverage.most, rule.bytes);
    coverage.rules.push_back(std::move(rule));
  }
  if (const auto rest = NumbersOf(given.Text("no rule")); rest.size() == 2) {
    coverage.no_rule = rest[0];
    coverage.no_rule_bytes = rest[1];
  }
  return CoverageText(coverage, StyleOf(given));
}

TEST_CASE("what is drawn for a terminal") {
  CheckTable("emit_pictures.txt", [](const TableCase& given) {
    std::string out = given.Find("memory") != nullptr  ? MemoryOf(given)
                      : given.Find("rules") != nullptr ? RulesOf(given)
                      : given.Find("spec") != nullptr
                          ? ArrayOf(given)
                          : MeshPictureText(picture::MeshPicture(MeshOf(given)),
                                            StyleOf(given));
    for (size_t at; (at = out.find('\x1b')) != std::string::npos;) {
      out.replace(at, 1, "<ESC>");
    }
    return out;
  });
}

}  // namespace
}  // namespace shardc
