// Reads a file of results of `shardc verify` for the report page. The member
// `schema` of the file determines whether the file has attention cases or
// complete steps.
//
// Attention cases become rows of a table. Cases of the same operation and mode
// share a row, which counts them by status. The row also has the largest error
// of its cases, as a fraction of the tolerance, and a reason why a case did not
// pass. For example, this row stands for 21 cases:
//
//   ring  decode   18 pass  0 fail  3 unsupported   0.62   "lengths that ..."
//
// A complete step becomes a table of the collectives of its program. The table
// is in the program's order, and has the bytes that each collective sends.
#include "cli/verified.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>
#include <utility>

#include "plan/read.h"
#include "source/after_last.h"
#include "source/checked.h"
#include "source/file.h"
#include "source/json.h"
#include "source/json_members.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

constexpr std::string_view kWriteAgain =
    "write it again with `shardc verify --format json`";

// Reads the members of one file. After the first error, all further members are
// skipped.
class ReportReader {
 public:
  ReportReader(const Mesh& mesh, Findings& findings)
      : mesh_(mesh), findings_(findings) {}

  bool good() const { return good_; }

  // Reads `status`, which is `pass`, `fail` or `unsupported`.
  std::string_view Status(const JsonValue& object) {
    const std::string_view out = Text(object, "status");
    if (good_ && out != "pass" && out != "fail" && out != "unsupported") {
      Refuse(object.Find("status").value_or(object),
             "`status` is " + ShortQuote(out) +
                 ", not `pass`, `fail` or `unsupported`");
    }
    return out;
  }
  std::string_view Text(const JsonValue& object, std::string_view key) {
    const auto value = Member(object, key, JsonKind::kString);
    return value ? value->string() : std::string_view();
  }
  // Reads a text. Returns nullopt if the member is null or absent.
  std::optional<std::string_view> TextOrNull(const JsonValue& object,
                                             std::string_view key) {
    if (IsNull(object, key)) return std::nullopt;
    return Text(object, key);
  }
  int64_t Count(const JsonValue& object, std::string_view key) {
    const auto value = Member(object, key, JsonKind::kInteger);
    if (value && value->integer() < 0) Refuse(*value, "this is not a count");
    return value ? value->integer() : 0;
  }
  // Reads a number. Returns nullopt if the member is null or absent.
  std::optional<double> Real(const JsonValue& object, std::string_view key) {
    const auto value = object.Find(key);
    if (!value || value->IsNull()) return std::nullopt;
    if (value->kind() != JsonKind::kInteger &&
        value->kind() != JsonKind::kReal) {
      Refuse(*value, "`" + std::string(key) + "` is not a number");
      return std::nullopt;
    }
    return value->real();
  }
  std::vector<JsonValue> List(const JsonValue& object, std::string_view key) {
    std::vector<JsonValue> out;
    const auto value = Member(object, key, JsonKind::kArray);
    if (!value) return out;
    for (const JsonValue item : value->items()) out.push_back(item);
    return out;
  }
  std::string Names(const JsonValue& object, std::string_view key) {
    std::string out;
    for (const JsonValue& item : List(object, key)) {
      if (!item.IsString()) {
        Refuse(item, "this is not a name");
        return {};
      }
      if (!out.empty()) out += " ";
      out += item.string();
    }
    return out;
  }
  // Returns whether the results are for the plan's mesh. A case of a large mesh
  // runs on a mesh with smaller axes. Its member `mesh` is this smaller mesh,
  // and `given_mesh` is the large mesh, which is compared with the plan's.
  bool OfThisMesh(const JsonValue& object) {
    const bool reduced = object.IsObject() && object.Find("given_mesh");
    const auto value =
        Member(object, reduced ? "given_mesh" : "mesh", JsonKind::kObject);
    if (!value) return false;
    const auto mesh = ParsePlanMesh(*value, findings_);
    if (!mesh) return good_ = false;
    const std::string given = MeshText(*mesh), wanted = MeshText(mesh_);
    if (given == wanted) return true;
    Refuse(*value,
           "this was verified on " + given + ", the plan's mesh is " + wanted);
    return false;
  }
  void Refuse(const JsonValue& value, std::string message) {
    if (good_) {
      findings_.Add(code::kSchema, value.place(), std::move(message),
                    std::string(kWriteAgain));
    }
    good_ = false;
  }

 private:
  static bool IsNull(const JsonValue& object, std::string_view key) {
    const auto value = object.Find(key);
    return !value || value->IsNull();
  }
  std::optional<JsonValue> Member(const JsonValue& object, std::string_view key,
                                  JsonKind kind) {
    if (!good_) return std::nullopt;
    if (!object.IsObject()) {
      Refuse(object, "this is not an object");
      return std::nullopt;
    }
    auto value = RequiredMember(object, key, kind, findings_);
    good_ = value.has_value();
    return value;
  }

  const Mesh& mesh_;
  Findings& findings_;
  bool good_ = true;
};

// Formats a fraction with two digits (0.62), or with four digits if it is near
// 0 or 1.
std::string PartText(double part) {
  std::array<char, 32> text{};
  const int digits = part < 0.005 || part > 0.995 ? 4 : 2;
  std::snprintf(text.data(), text.size(), "%.*f", digits, part);
  return text.data();
}

struct Row {
  std::string operation, mode, reason;
  int64_t passed = 0, failed = 0, unsupported = 0;
  std::optional<double> closest;
};

void AddCase(ReportReader& read, const JsonValue& value,
             std::vector<Row>& rows) {
  const std::string_view operation = read.Text(value, "operation");
  const std::string_view mode = read.Text(value, "mode");
  const std::string_view status = read.Status(value);
  const auto reason = read.TextOrNull(value, "reason");
  const auto error = read.Real(value, "max_abs_error");
  const auto tolerance = read.Real(value, "tolerance");
  if (!read.good() || !read.OfThisMesh(value)) return;
  const auto same = std::find_if(rows.begin(), rows.end(), [&](const Row& row) {
    return row.operation == operation && row.mode == mode;
  });
  Row& row = same != rows.end() ? *same : rows.emplace_back();
  row.operation = operation;
  row.mode = mode;
  (status == "pass"   ? row.passed
   : status == "fail" ? row.failed
                      : row.unsupported) += 1;
  if (reason && row.reason.empty()) row.reason = *reason;
  if (error && tolerance && *tolerance > 0) {
    row.closest = std::max(row.closest.value_or(0), *error / *tolerance);
  }
}

void ReadCases(ReportReader& read, const JsonValue& root,
               const std::string& from, Verified& out) {
  std::vector<Row> rows;
  for (const JsonValue& one : read.List(root, "cases")) {
    AddCase(read, one, rows);
    if (!read.good()) return;
  }
  report::Table table;
  int64_t passed = 0, failed = 0, unsupported = 0;
  table.heads = {"operation",       "mode", "pass", "fail", "unsupported",
                 "error/tolerance", "why"};
  table.numbers = {false, false, true, true, true, true, false};
  for (Row& row : rows) {
    passed += row.passed;
    failed += row.failed;
    unsupported += row.unsupported;
    table.rows.push_back({row.operation, row.mode, CountText(row.passed),
                          CountText(row.failed), CountText(row.unsupported),
                          row.closest ? PartText(*row.closest) : "",
                          std::move(row.reason)});
  }
  table.title = "Attention, verified";
  table.about = "Sharded attention compared with the dense reference, from `" +
                from + "`: " + CountText(passed) + " pass, " +
                CountText(failed) + " fail, " + CountText(unsupported) +
                " unsupported.";
  out.failed = out.failed || failed > 0;
  out.tables.push_back(std::move(table));
}

std::string AboutStep(ReportReader& read, const JsonValue& step,
                      std::string_view status, const std::string& from) {
  std::string out = "A step of the model, from `" + from + "`: ";
  if (status == "unsupported") {
    return out + "it is unsupported. " +
           std::string(read.TextOrNull(step, "reason").value_or(""));
  }
  out += status == "pass" ? "every result equals the dense model's."
                          : "a result differs from the dense model's.";
  return out + " Bytes are those that the busiest device sends at " +
         Counted(read.Count(step, "batch"), "row") + " of " +
         Counted(read.Count(step, "length"), "token") + ", over all layers.";
}

// Adds the op to the table if it is a collective. The file lists equal layers
// once, with their number. The op's bytes are multiplied by this number.
void AddOp(ReportReader& read, const JsonValue& op, report::Table& table) {
  const auto collective = read.TextOrNull(op, "collective");
  if (!collective) return;
  const int64_t layers = read.Count(op, "layers");
  const int64_t bytes = read.Count(op, "bytes_per_device");
  const auto sent = CheckedMul(layers, bytes);
  if (!sent) {
    read.Refuse(op, "this number of bytes does not fit in 64 bits");
    return;
  }
  table.rows.push_back(
      {std::string(read.Text(op, "phase")), std::string(read.Text(op, "part")),
       std::string(read.Text(op, "op")), std::string(read.Text(op, "specs")),
       std::string(*collective) + " " + read.Names(op, "axes"),
       BytesText(*sent)});
}

void ReadSteps(ReportReader& read, const JsonValue& root,
               const std::string& from, Verified& out) {
  for (const JsonValue& step : read.List(root, "steps")) {
    const std::string_view status = read.Status(step);
    if (!read.good() || !read.OfThisMesh(step)) return;
    report::Table table;
    table.title = "Step, verified: " + std::string(read.Text(step, "mode"));
    table.about = AboutStep(read, step, status, from);
    table.heads = {"phase", "part", "op", "specs", "collective", "sent"};
    table.numbers = {false, false, false, false, false, true};
    for (const JsonValue& op : read.List(step, "ops")) AddOp(read, op, table);
    if (!read.good()) return;
    out.failed = out.failed || status == "fail";
    out.tables.push_back(std::move(table));
  }
}

}  // namespace

std::optional<Verified> ReadVerified(const std::string& path, const Mesh& mesh,
                                     Findings& findings) {
  const SourceRef source = ReadSource(path, findings);
  if (source == nullptr) return std::nullopt;
  const auto document = JsonDocument::Parse(source, findings);
  if (document == nullptr) return std::nullopt;
  const JsonValue root = document->root();
  const std::string_view kind = SchemaOf(root);
  const std::string name(AfterLast(path, '/'));
  ReportReader read(mesh, findings);
  Verified out;
  if (kind == "shardc.verify/v1" && root.Find("cases")) {
    ReadCases(read, root, name, out);
  } else if (kind == "shardc.step/v1" && root.Find("steps")) {
    ReadSteps(read, root, name, out);
  } else {
    read.Refuse(root, "this is not a report of `shardc verify`");
  }
  if (!read.good()) return std::nullopt;
  return out;
}

}  // namespace shardc::cli
