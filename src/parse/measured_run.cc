// Reads the description of a measured run. Most of its keys are options of the
// command `cost`, with `_` in place of `-`:
//
//   {schema: shardc.run/v1, mesh: 'fsdp:8', rules: auto, manifest: m.json,
//    model: config.json, batch: 16, seq: 8192, step_s: 2.46}
#include "parse/measured_run.h"

#include <algorithm>

#include "parse/keys.h"
#include "source/file.h"
#include "source/wording.h"
#include "yaml/read.h"

namespace shardc {
namespace {

constexpr std::string_view kRunSchema = "shardc.run/v1";
constexpr RealRange kSeconds = {1e-9, 1e9};
constexpr RealRange kRate = {1e-6, 1e12};

// kTexts lists the keys whose value is a text, kCounts the keys whose value is
// an integer, and kSwitches the keys that are true or false.
constexpr std::string_view kTexts[] = {
    "remat",         "operation", "optimizer",      "grad_dtype",
    "master_dtype",  "dtype",     "logits_dtype",   "matmul_dtype",
    "moments_dtype", "stack",     "illegal",        "dispatcher",
    "graphs",        "routing",   "capacity_factor"};
constexpr std::string_view kSwitches[] = {"overlap_tp", "ep_overlap"};
constexpr std::string_view kCounts[] = {"batch", "seq", "microbatches", "zero"};

std::string OptionOf(std::string_view key) {
  std::string out = "--" + std::string(key);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

std::string Quoted(std::string_view key) {
  return "`" + std::string(key) + "`";
}

class RunReader {
 public:
  RunReader(const YamlContext& context, const Fields& fields, MeasuredRun& out)
      : context_(context), fields_(fields), out_(out) {}

  void Read(const YamlNode& root) {
    const YamlNode* schema = fields_.Require(context_, root, "schema");
    if (schema != nullptr) ReadSchema(*schema);
    Text("name", out_.name);
    Path("mesh", out_.mesh);
    Path("manifest", out_.manifest);
    Path("model", out_.model);
    if (const YamlNode* rules = fields_.Find("rules")) {
      auto texts = ReadTexts(context_, *rules, "`rules`");
      if (texts) out_.rules = std::move(*texts);
      PutPlace("rules", *rules);
      for (std::string& one : out_.rules) one = Beside(one);
    }
    for (const std::string_view key : kTexts) {
      std::string text;
      if (Text(key, text)) out_.options.emplace_back(OptionOf(key), text);
    }
    for (const std::string_view key : kCounts) {
      const YamlNode* node = fields_.Find(key);
      if (node == nullptr) continue;
      const auto value = ReadInteger(context_, *node, Quoted(key), {});
      if (value) {
        out_.options.emplace_back(OptionOf(key), std::to_string(*value));
        PutPlace(key, *node);
      }
    }
    for (const std::string_view key : kSwitches) {
      const YamlNode* node = fields_.Find(key);
      if (node != nullptr &&
          ReadBool(context_, *node, Quoted(key)).value_or(false)) {
        out_.flags.push_back(OptionOf(key));
      }
    }
    ReadTime(root);
  }

 private:
  bool Text(std::string_view key, std::string& to) {
    const YamlNode* node = fields_.Find(key);
    if (node == nullptr) return false;
    auto text = ReadText(context_, *node, Quoted(key), true);
    if (!text) return false;
    if (text->empty() && key != "name") {
      context_.Add(code::kSchema, *node, Quoted(key) + " is empty",
                   "give it a value, or remove the key");
      return false;
    }
    to = std::move(*text);
    PutPlace(key, *node);
    return true;
  }

  void PutPlace(std::string_view key, const YamlNode& node) {
    out_.places[OptionOf(key)] = context_.document.PlaceOf(node);
  }

  void Path(std::string_view key, std::string& to) {
    if (Text(key, to)) to = Beside(to);
  }

  // Returns a path relative to the working directory. The path in the file is
  // relative to the file's folder. Texts that are not paths are returned
  // unchanged, such as axes (`dp:2,tp:4`) and rule packs (`builtin:llama`).
  std::string Beside(const std::string& text) const {
    const bool path = text != "auto" && text.find(':') == std::string::npos;
    return path ? PathNextTo(context_.document.source()->name(), text) : text;
  }

  void ReadSchema(const YamlNode& node) {
    const auto text = ReadText(context_, node, "`schema`");
    if (text && *text != kRunSchema) {
      context_.Add(code::kSchema, node,
                   "`schema` is " + ShortQuote(*text) + ", not `" +
                       std::string(kRunSchema) + "`");
    }
  }

  void ReadTime(const YamlNode& root) {
    const YamlNode* step = fields_.Find("step_s");
    const YamlNode* rate = fields_.Find("tokens_per_second_per_device");
    if ((step == nullptr) == (rate == nullptr)) {
      context_.Add(code::kSchema, rate != nullptr ? *rate : root,
                   rate != nullptr ? "the run has both `step_s` and "
                                     "`tokens_per_second_per_device`"
                                   : "the run has no time",
                   "give `step_s`, the seconds of a step, or "
                   "`tokens_per_second_per_device`");
      return;
    }
    if (step != nullptr) {
      out_.step_s = ReadReal(context_, *step, "`step_s`", kSeconds);
      out_.place = context_.document.PlaceOf(*step);
    } else {
      out_.tokens_per_second_per_device =
          ReadReal(context_, *rate, "`tokens_per_second_per_device`", kRate);
      out_.place = context_.document.PlaceOf(*rate);
    }
  }

  const YamlContext& context_;
  const Fields& fields_;
  MeasuredRun& out_;
};

}  // namespace

std::optional<MeasuredRun> ParseMeasuredRun(SourceRef source,
                                            Findings& findings) {
  const size_t before = findings.errors();
  const std::string file = source->name();
  const auto document = YamlDocument::Parse(std::move(source), findings);
  if (!document) return std::nullopt;
  const YamlContext context{*document, findings};
  const auto fields = Fields::Read(context, document->root(), keys::kRun);
  if (!fields) return std::nullopt;
  MeasuredRun out;
  RunReader(context, *fields, out).Read(document->root());
  if (findings.errors() > before) return std::nullopt;
  if (out.name.empty()) out.name = file;
  return out;
}

}  // namespace shardc
