#include "emit/verify_json.h"

#include <charconv>
#include <cmath>

#include "emit/json_text.h"
#include "source/wording.h"
#include "verify/features.h"
#include "verify/settings.h"

namespace shardc {
namespace {

using verify::Case;
using verify::CaseResult;
using verify::Sizes;

// JSON has no infinities: they are null, and `status` tells of them.
void AppendReal(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value);
  out.append(text, end.ptr);
}

void AppendText(std::string& out, std::string_view key,
                std::string_view value) {
  out += ", ";
  AppendKey(out, key);
  AppendJsonString(out, value);
}

void AppendNumber(std::string& out, std::string_view key, double value) {
  out += ", ";
  AppendKey(out, key);
  AppendReal(out, value);
}

void AppendTexts(std::string& out, const std::vector<std::string>& texts) {
  out += '[';
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) out += ", ";
    AppendJsonString(out, texts[i]);
  }
  out += ']';
}

std::string_view LayoutText(exec::Layout layout) {
  switch (layout) {
    case exec::Layout::kBhtd:
      return "bhtd";
    case exec::Layout::kThd:
      return "thd";
    default:
      return "bthd";
  }
}

void AppendShapes(std::string& out, const Case& test) {
  const Sizes& n = test.sizes;
  const auto shape = [&](std::string_view name, int64_t length, int64_t heads,
                         int64_t dim) {
    AppendKey(out, name);
    if (test.layout == exec::Layout::kThd) {
      AppendShape(out, Shape{n.batch * length, heads, dim});
    } else if (test.layout == exec::Layout::kBhtd) {
      AppendShape(out, Shape{n.batch, heads, length, dim});
    } else {
      AppendShape(out, Shape{n.batch, length, heads, dim});
    }
  };
  out += '{';
  shape("query", n.query_length, n.heads, n.head_dim);
  out += ", ";
  shape("key", n.key_length, n.key_heads, n.head_dim);
  out += ", ";
  shape("value", n.key_length, n.key_heads, n.ValueDim());
  out += '}';
}

void AppendFeatures(std::string& out, const Case& test) {
  out += ", ";
  AppendKey(out, "features");
  out += '[';
  bool first = true;
  for (const std::string_view name : verify::FeatureNames(test)) {
    if (!first) out += ", ";
    first = false;
    AppendJsonString(out, name);
  }
  out += ']';
}

void AppendCommunication(std::string& out, const exec::Ledger& ledger) {
  out += '{';
  bool first = true;
  for (size_t i = 0; i < exec::kCollectiveCount; ++i) {
    const auto kind = static_cast<exec::Collective>(i);
    const int64_t bytes = ledger.MostSent(kind);
    if (kind == exec::Collective::kBroadcast && bytes == 0) continue;
    if (!first) out += ", ";
    first = false;
    AppendKey(out, exec::CollectiveName(kind));
    out += std::to_string(bytes);
  }
  out += '}';
}

void AppendSteps(std::string& out, const exec::Ledger& ledger) {
  out += '[';
  for (size_t i = 0; i < ledger.entries().size(); ++i) {
    const exec::LedgerEntry& entry = ledger.entries()[i];
    if (i > 0) out += ", ";
    int64_t most = 0;
    for (int64_t bytes : entry.sent) most = std::max(most, bytes);
    out += '{';
    AppendKey(out, "collective");
    AppendJsonString(out, exec::CollectiveName(entry.kind));
    out += ", ";
    AppendKey(out, "axes");
    out += '[';
    for (size_t a = 0; a < entry.axes.size(); ++a) {
      if (a > 0) out += ", ";
      AppendJsonString(out, entry.axes[a]);
    }
    out += ']';
    AppendText(out, "tensor", entry.what);
    out += ", ";
    AppendKey(out, "group_size");
    out += std::to_string(entry.group_size);
    out += ", ";
    AppendKey(out, "bytes");
    out += std::to_string(most);
    out += '}';
  }
  out += ']';
}

void AppendMetric(std::string& out, std::string_view name,
                  const std::vector<double>& values, Metrics metrics) {
  AppendKey(out, name);
  if (metrics == Metrics::kStacked) {
    out += '[';
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0) out += ", ";
      AppendReal(out, values[i]);
    }
    out += ']';
    return;
  }
  const verify::Spread spread = verify::SpreadOf(values);
  out += "{\"min\": ";
  AppendReal(out, spread.least);
  out += ", \"mean\": ";
  AppendReal(out, spread.mean);
  out += ", \"max\": ";
  AppendReal(out, spread.greatest);
  out += '}';
}

// Of every device: its largest error, the bytes that it sends, and in how many
// of the collectives it sends some. The error is null where a case failed
// before outputs were compared.
void AppendDevices(std::string& out, const Case& test, const CaseResult& result,
                   Metrics metrics) {
  const auto devices = static_cast<size_t>(test.mesh.devices);
  std::vector<double> bytes(devices, 0), steps(devices, 0);
  for (const exec::LedgerEntry& entry : result.ledger.entries()) {
    for (size_t d = 0; d < entry.sent.size() && d < devices; ++d) {
      bytes[d] += static_cast<double>(entry.sent[d]);
      steps[d] += entry.sent[d] > 0;
    }
  }
  out += '{';
  if (result.device_error.empty()) {
    AppendKey(out, "error");
    out += "null";
  } else {
    AppendMetric(out, "error", result.device_error, metrics);
  }
  out += ", ";
  AppendMetric(out, "bytes", bytes, metrics);
  out += ", ";
  AppendMetric(out, "steps", steps, metrics);
  out += '}';
}

void AppendSizes(std::string& out, const Sizes& n) {
  out += "{\"batch\": " + std::to_string(n.batch) +
         ", \"q_len\": " + std::to_string(n.query_length) +
         ", \"kv_len\": " + std::to_string(n.key_length) +
         ", \"heads\": " + std::to_string(n.heads) +
         ", \"kv_heads\": " + std::to_string(n.key_heads) +
         ", \"head_dim\": " + std::to_string(n.head_dim) +
         ", \"value_dim\": " + std::to_string(n.ValueDim()) + '}';
}

}  // namespace

std::string VerifyCaseJson(const Case& test, const CaseResult& result,
                           Metrics metrics) {
  const bool ran = result.status != verify::Status::kUnsupported;
  std::string out = "{";
  AppendKey(out, "operation");
  AppendJsonString(out, test.operation->name);
  AppendText(out, "mode", ModeName(test.mode));
  AppendText(out, "layout", LayoutText(test.layout));
  AppendText(out, "dtype", DtypeName(test.dtype));
  AppendText(out, "kv_dtype",
             DtypeName(test.kv_dtype ? *test.kv_dtype : test.dtype));
  out += ", ";
  AppendKey(out, "mesh");
  AppendMesh(out, test.mesh);
  out += ", ";
  AppendKey(out, "shapes");
  AppendShapes(out, test);
  AppendFeatures(out, test);
  if (test.life) {
    out += ", \"cache\": {\"prefill\": " + std::to_string(test.life->prefill) +
           ", \"steps\": " + std::to_string(test.life->steps) +
           ", \"slots\": " + std::to_string(test.life->slots) +
           ", \"window\": " + std::to_string(test.life->window) +
           ", \"pages\": " + (test.life->pages ? "true" : "false") + '}';
  }
  out += ", \"settings\": {" + verify::SettingsMembers(test, false) + '}';
  AppendText(out, "status", StatusName(result.status));
  // A case may fail before its output is compared with anything.
  if (!result.device_error.empty()) {
    AppendNumber(out, "max_abs_error", result.error.max_abs);
    AppendNumber(out, "tolerance", std::min(result.tolerance, result.cap));
    AppendNumber(out, "unsharded_error", result.unsharded.max_abs);
    AppendNumber(out, "relative_l2", result.error.relative_l2);
    out += ", \"worst\": {\"batch\": " + std::to_string(result.error.worst[0]) +
           ", \"token\": " + std::to_string(result.error.worst[1]) +
           ", \"head\": " + std::to_string(result.error.worst[2]) + '}';
    out += ", \"bit_identical\": ";
    out += result.exact && !result.failed ? "true" : "false";
  } else {
    out +=
        ", \"max_abs_error\": null, \"tolerance\": null, "
        "\"unsharded_error\": null";
  }
  out += ", ";
  AppendKey(out, "communication");
  AppendCommunication(out, result.ledger);
  out += ", ";
  AppendKey(out, "steps");
  AppendSteps(out, result.ledger);
  if (ran) {
    out += ", ";
    AppendKey(out, "devices");
    AppendDevices(out, test, result, metrics);
  }
  out += ", ";
  AppendKey(out, "reason");
  if (result.reason.empty()) {
    out += "null";
  } else {
    AppendJsonString(out, result.reason);
    out += ", ";
    AppendKey(out, "axis");
    if (result.axis.empty()) {
      out += "null";
    } else {
      AppendJsonString(out, result.axis);
    }
    out += ", ";
    AppendKey(out, "help");
    AppendJsonString(out, result.help);
  }
  if (result.failed) AppendText(out, "check", CheckName(*result.failed));
  out += ", \"remarks\": ";
  AppendTexts(out, result.remarks);
  return out + '}';
}

std::string VerifyJson(const verify::Report& report, Metrics metrics) {
  std::string out = "{\n  \"schema\": \"shardc.verify/v1\",\n  \"seed\": " +
                    std::to_string(report.seed) +
                    ",\n  \"witness\": " + (report.witness ? "true" : "false") +
                    ",\n  \"sizes\": {\"given\": ";
  AppendSizes(out, report.given);
  out += ", \"used\": ";
  AppendSizes(out, report.used);
  out += "},\n  \"remarks\": ";
  AppendTexts(out, report.remarks);
  out += ",\n  \"cases\": [";
  for (size_t i = 0; i < report.cases.size(); ++i) {
    out += i == 0 ? "\n    " : ",\n    ";
    out += VerifyCaseJson(report.cases[i], report.results[i], metrics);
  }
  out += "\n  ],\n  \"summary\": {\"pass\": " +
         std::to_string(report.Count(verify::Status::kPass)) +
         ", \"fail\": " + std::to_string(report.Count(verify::Status::kFail)) +
         ", \"unsupported\": " +
         std::to_string(report.Count(verify::Status::kUnsupported)) + "}\n}\n";
  return out;
}

std::string SelfTestJson(const verify::SelfTest& result) {
  std::string out = "{\n  \"schema\": \"shardc.verify/v1\",\n  \"planted\": " +
                    std::to_string(result.faults.size()) +
                    ",\n  \"caught\": " + std::to_string(result.Caught()) +
                    ",\n  \"faults\": [";
  for (size_t i = 0; i < result.faults.size(); ++i) {
    const verify::FaultVerdict& fault = result.faults[i];
    out += i == 0 ? "\n    {" : ",\n    {";
    AppendKey(out, "name");
    AppendJsonString(out, fault.name);
    AppendText(out, "family", fault.family);
    out += ", \"caught\": ";
    out += fault.caught ? "true" : "false";
    out += ", \"by\": ";
    if (fault.caught) {
      AppendJsonString(out, fault.by);
    } else {
      out += "null";
    }
    out += '}';
  }
  return out + "\n  ]\n}\n";
}

}  // namespace shardc
