// Computes a deployment in these steps:
//
//   settings of the file          ->  values of the system's keys
//   values, and the model's sizes ->  what `let` of the system's file defines
//   checks                        ->  findings
//   grids                         ->  coordinates of ranks, and one mesh
//   tree and splits               ->  what each rank holds
//
// A mesh for two grids exists if the running products of their sizes, from the
// fastest axis, divide one another. For example, Megatron-LM numbers 16 ranks
// as pp 2, dp 4, tp 2 and as pp 2, edp 2, ep 4. The products are 2, 8, 16 and
// 4, 8, 16, so the mesh has axes of 2 (pp), 2 (edp), 2 (dp_ep) and 2 (tp): dp
// is [edp, dp_ep], and ep is [dp_ep, tp]. If tp is 4 and ep 3, no mesh exists.
#include "systems/deployment.h"

#include <algorithm>
#include <set>
#include <utility>

#include "facts/parameters.h"
#include "families/families.h"
#include "match/match.h"
#include "parse/config_fields.h"
#include "parse/project.h"
#include "roles/classify.h"
#include "source/config_codes.h"
#include "source/file.h"
#include "source/json_writer.h"
#include "source/list.h"
#include "source/size.h"
#include "source/utf8.h"
#include "source/wording.h"
#include "systems/followed.h"
#include "systems/values.h"
#include "yaml/scan.h"

namespace shardc::systems {
namespace {

// The limit on the ranks of a grid.
constexpr int64_t kMostRanks = 1 << 20;

// Returns the part of `size` elements that part `index` of `share` holds.
int64_t PartOf(int64_t size, const Share& share, int64_t index) {
  const int64_t parts = share.parts;
  switch (share.division) {
    case Division::kExact:
      return size / parts;
    case Division::kChunk: {
      const int64_t chunk = CeilDiv(size, parts);
      return std::clamp(size - index * chunk, int64_t{0}, chunk);
    }
    case Division::kBalanced:
      return size / parts + (index < size % parts ? 1 : 0);
    case Division::kUnits: {
      const int64_t mine =
          share.units / parts + (index < share.units % parts ? 1 : 0);
      return size / share.units * mine;
    }
    case Division::kReplicate:
      return parts > share.units ? size / share.units : size / parts;
  }
  return size;
}

// Returns whether all parts have the same size.
bool IsEven(int64_t size, const Share& share) {
  if (share.division == Division::kReplicate && share.parts > share.units) {
    return share.parts % share.units == 0 && size % share.units == 0;
  }
  if (share.division == Division::kUnits) {
    return share.units % share.parts == 0 && size % share.units == 0;
  }
  return size % share.parts == 0;
}

// Returns whether the parts are those of a padded plan: ceil(size / parts)
// elements each, and the rest.
bool IsChunked(int64_t size, const Share& share) {
  if (share.division == Division::kChunk) return true;
  Share chunk = share;
  chunk.division = Division::kChunk;
  for (int64_t p = 0; p < share.parts; ++p) {
    if (PartOf(size, share, p) != PartOf(size, chunk, p)) return false;
  }
  return true;
}

std::string FoldNumbers(std::string_view name, std::string_view with) {
  std::string out;
  for (size_t at = 0; at < name.size();) {
    const size_t end = std::min(name.find('.', at), name.size());
    const std::string_view part = name.substr(at, end - at);
    const bool number =
        !part.empty() && std::all_of(part.begin(), part.end(), IsDigit);
    out += number ? with : part;
    if (end < name.size()) out += '.';
    at = end + 1;
  }
  return out;
}

// Returns whether a command has the words of a command of a system.
bool Runs(const ConfigText& text, const std::vector<std::string>& commands) {
  std::string words;
  for (const std::string& word : text.words) AppendItem(words, " ", word);
  for (const Setting& setting : text.settings) {
    // Variables of the file are in each of its commands.
    if (setting.key.starts_with("env.")) continue;
    for (const Word& value : setting.values) {
      AppendItem(words, " ", value.text);
    }
  }
  words = " " + words + " ";
  for (const std::string& command : commands) {
    for (size_t at = words.find(command); at != std::string::npos;
         at = words.find(command, at + 1)) {
      const char before = words[at - 1];
      const size_t end = at + command.size();
      if ((before == ' ' || before == '/' || before == '=') &&
          words[end] == ' ') {
        return true;
      }
    }
  }
  return false;
}

class Deployer {
 public:
  Deployer(const System& system, const Followed& followed,
           const ConfigInputs& inputs, Findings& findings)
      : system_(system),
        text_(followed.text),
        unshown_(followed.unshown),
        inputs_(inputs),
        findings_(findings) {}

  std::optional<Deployment> Run() {
    const size_t before = findings_.errors();
    out_.system = &system_;
    out_.source = text_.source;
    ReadSettings();
    FindModel();
    if (findings_.errors() > before) return std::nullopt;
    values_ = Values::Make(system_, known_, sections_);
    if (values_ == nullptr) {
      findings_.Add(code::kSchema, text_.place,
                    "the values of the configuration cannot be read");
      return std::nullopt;
    }
    RunChecks();
    Derive();
    if (!MakeGrids()) return std::nullopt;
    MakeMesh();
    MakeStep();
    if (!MakeManifest()) return std::nullopt;
    if (out_.manifest) {
      if (!MakePlacements()) return std::nullopt;
      MakeStages();
    }
    return std::move(out_);
  }

 private:
  void ReadSettings() {
    std::set<std::string> unknown;
    const auto removed = RemovedKeys();
    for (const Setting& setting : text_.settings) {
      if (std::any_of(removed.begin(), removed.end(),
                      [&](const std::string& one) {
                        return IsKey(one, setting.key);
                      })) {
        continue;
      }
      ReadSetting(setting, unknown);
      // The flags after a script are those of the script.
      const bool script = !setting.values.empty() &&
                          setting.values.back().text.ends_with(".py");
      if (system_.launcher && script) break;
    }
    ReportUnknown();
    ReportOpen();
    CheckCommand();
    for (const std::string& one : inputs_.set) {
      const size_t equals = std::min(one.find('='), one.size());
      const SourceRef source = MakeSource("--set", one);
      const std::string key = NormalKey(one.substr(0, equals));
      const SystemKey* known = system_.FindKey(key);
      const Place place{source, 0, equals};
      // A variable of the script, or a key that is removed.
      if (known == nullptr && key.starts_with("env.")) continue;
      if (equals + 1 == one.size()) continue;
      if (known == nullptr || equals == one.size()) {
        findings_.Add(code::kUsage, place,
                      known == nullptr
                          ? system_.title + " has no key " + ShortQuote(key) +
                                " that changes what a rank holds"
                          : "`--set` has no value",
                      "write `--set KEY=VALUE`");
        continue;
      }
      known_[known->name] = {one.substr(equals + 1), false, place, key};
      undetermined_.erase(known->name);
    }
    if (inputs_.devices) {
      known_["devices"] = {std::to_string(*inputs_.devices), false,
                           Place{MakeSource("--devices", "")}, "--devices"};
    }
    // The model that a server is started with.
    for (size_t i = 0; i + 1 < text_.words.size(); ++i) {
      if (text_.words[i] != "serve" || known_.contains("model_path")) continue;
      known_["model_path"] = {text_.words[i + 1], true, text_.place, "serve"};
    }
    HideUnshown();
  }

  // Makes the keys unknown that the configuration does not show.
  void HideUnshown() {
    for (const Unshown& one : unshown_) {
      for (const SystemKey& key : system_.keys) {
        if (known_.contains(key.name) || IsAmong(key.name, one.row->but)) {
          continue;
        }
        KnownValue value;
        value.unknown = value.maybe = true;
        known_[key.name] = std::move(value);
        hidden_.emplace(key.name, one.why);
      }
      if (out_.no_model.empty()) out_.no_model = one.why;
      Report(code::kConfigUndetermined, one.place,
             "keys that this configuration lacks are not known: " + one.why,
             "give them as `--set KEY=VALUE`");
    }
  }

  // Returns whether a key is the one that a user names, or is below a section.
  static bool IsKey(std::string_view named, std::string_view key) {
    return FitsGlob(named, key) || FitsGlob("*." + std::string(named), key);
  }

  // Returns the keys that `--set KEY=` removes from the configuration.
  std::vector<std::string> RemovedKeys() {
    std::vector<std::string> out;
    for (const std::string& one : inputs_.set) {
      if (one.starts_with("env.") || one.find('=') + 1 != one.size()) continue;
      const std::string key = NormalKey(one.substr(0, one.size() - 1));
      const bool any = std::any_of(
          text_.settings.begin(), text_.settings.end(),
          [&](const Setting& setting) { return IsKey(key, setting.key); });
      if (!any) {
        findings_.Add(code::kUsage,
                      Place{MakeSource("--set", one), 0, key.size()},
                      "the configuration has no key " + ShortQuote(key),
                      "`--set KEY=` removes a key of the file");
      }
      out.push_back(key);
    }
    return out;
  }

  // Adds a warning for each expansion that may have further keys.
  void ReportOpen() {
    std::set<std::string> said;
    for (const Word& word : text_.open) {
      if (!said.insert(word.text).second) continue;
      Finding one;
      one.code = &code::kConfigUndetermined;
      one.level = inputs_.lenient ? Level::kNote : Level::kWarning;
      one.place = word.place;
      one.message =
          word.unknown + "; keys that it has are not in these figures";
      one.help =
          "give them as `--set KEY=VALUE`, or set the variable in the file";
      findings_.Add(std::move(one));
    }
  }

  // Adds a finding about the keys that are not known: one for each, or one note
  // about all of them.
  void ReportUnknown() {
    constexpr size_t kMostNamed = 8;
    if (unknown_.empty()) return;
    std::vector<std::string> names;
    for (const SystemKey& one : system_.keys) {
      for (const std::string& spelling : one.spellings) {
        names.push_back(spelling.starts_with("*.") ? spelling.substr(2)
                                                   : spelling);
      }
    }
    if (out_.no_model.empty()) {
      out_.no_model =
          "the key " + ShortQuote(unknown_.front()->written) + " is not known";
    }
    if (!inputs_.lenient) {
      for (const Setting* setting : unknown_) {
        Report(code::kConfigNotUnderstood, setting->place,
               "the key " + ShortQuote(setting->written) + " of " +
                   system_.title + " is not known",
               DidYouMean(setting->key, names,
                          "if it changes nothing that a rank holds, remove it: "
                          "`--set " +
                              setting->key + "=`"));
      }
      return;
    }
    std::string written, near;
    const Setting* first = nullptr;  // the first that may be misspelled
    for (size_t i = 0; i < std::min(unknown_.size(), kMostNamed); ++i) {
      AppendItem(written, ", ", ShortQuote(unknown_[i]->written));
      if (first != nullptr || !Nearest(unknown_[i]->key, names)) continue;
      first = unknown_[i];
      near = DidYouMean(first->key, names);
    }
    if (unknown_.size() > kMostNamed) written += ", ...";
    Report(code::kConfigNotUnderstood,
           (first != nullptr ? first : unknown_.front())->place,
           Counted(static_cast<int64_t>(unknown_.size()), "key") + " of " +
               system_.title +
               (unknown_.size() == 1 ? " is not known: " : " are not known: ") +
               written,
           near);
  }

  void ReadSetting(const Setting& setting, std::set<std::string>& unknown) {
    // A key of a mapping that is null is not given.
    const bool null = text_.form != TextForm::kShell &&
                      setting.values.size() == 1 &&
                      setting.values[0].text == "null";
    const SystemKey* const nulled = system_.FindKey(setting.key);
    if (null && (nulled == nullptr || known_.contains(nulled->name))) return;
    for (const auto& [key, what, unless] : system_.unsupported) {
      if (!IsKey(key, setting.key)) continue;
      const std::vector<std::string> no = {"false", "False", "0",
                                           "1",     "none",  "None"};
      const bool off =
          !setting.values.empty() && (IsAmong(setting.values[0].text, no) ||
                                      IsAmong(setting.values[0].text, unless));
      if (off) return;
      Report(code::kConfigNotUnderstood, setting.place,
             "the effect of " + ShortQuote(setting.written) +
                 " is not computed: " + what,
             "what a rank holds is not known with this key");
      out_.no_model =
          "the effect of " + ShortQuote(setting.written) + " is not computed";
      return;
    }
    const SystemKey* key = system_.FindKey(setting.key);
    if (key == nullptr) {
      if (setting.key.starts_with("env.") ||
          setting.key.starts_with("scheduler.") ||
          system_.IsOther(setting.key) || !unknown.insert(setting.key).second) {
        return;
      }
      unknown_.push_back(&setting);
      return;
    }
    KnownValue value;
    value.place = setting.place;
    value.written = setting.written;
    if (setting.values.empty()) {
      value.text = "true";
    } else {
      const Word& word = setting.values[0];
      value.text = word.text;
      value.place = {setting.place.source, setting.place.begin,
                     word.place.source == setting.place.source &&
                             word.place.end >= setting.place.begin &&
                             word.place.HasPosition()
                         ? std::max(word.place.end, setting.place.end)
                         : setting.place.end};
      if (!word.unknown.empty()) {
        undetermined_.insert_or_assign(key->name,
                                       std::pair(setting, word.unknown));
        value.unknown = true;
        known_[key->name] = std::move(value);
        return;
      }
    }
    // A script of a launcher follows flags without values.
    if (value.text.ends_with(".py")) value.text = "true";
    // The program that reads the file sets the value.
    if (value.text == "auto") {
      value.unknown = true;
      known_[key->name + "_auto"] = {"true", false, value.place, value.written};
    }
    undetermined_.erase(key->name);
    // A list of YAML may have several models, each with its own value.
    const auto before = known_.find(key->name);
    const bool several = text_.form == TextForm::kYaml &&
                         before != known_.end() && !before->second.unknown &&
                         before->second.text != "null" &&
                         before->second.text != value.text;
    if (several) {
      undetermined_.insert_or_assign(
          key->name, std::pair(setting, "the file has several values of it"));
      value.unknown = true;
    }
    if (setting.conditional ||
        (!setting.values.empty() && setting.values[0].conditional)) {
      undetermined_.insert_or_assign(
          key->name,
          std::pair(setting, "only one branch of a condition gives it"));
      value.unknown = true;
    }
    known_[key->name] = std::move(value);
  }

  // Reads the sizes of the model: a config.json, or another file of sizes.
  void FindModel() {
    sections_.emplace_back("mapping",
                           text_.form == TextForm::kShell ? "false" : "true");
    std::string path = inputs_.model;
    const auto named = known_.find("model_path");
    if (path.empty() && named != known_.end() && !named->second.unknown) {
      const std::string there = PathIn(
          PathNextTo(text_.source->name(), named->second.text), "config.json");
      if (IsThere(there, nullptr)) path = there;
    }
    for (const std::string& name : system_.model_files) {
      const std::string beside = PathNextTo(text_.source->name(), name);
      if (path.empty() && beside != text_.source->name() &&
          IsThere(beside, nullptr)) {
        path = beside;
      }
    }
    if (path.empty()) return;
    const SourceRef source = ReadSource(path, findings_);
    if (source == nullptr) return;
    const auto document = JsonDocument::Parse(source, findings_);
    if (document == nullptr) return;
    if (!document->root().IsObject()) {
      findings_.Add(code::kSchema, Place{source},
                    "the sizes of the model are no object");
      return;
    }
    sections_.emplace_back("sizes", std::string(source->text()));
    if (!document->root().Find("model_type")) return;
    const auto model = ReadModelConfig(*document, findings_);
    if (!model) return;
    out_.model_path = path;
    sections_.emplace_back(
        "model", TextOf([&](Sink& out) {
          JsonWriter json(out);
          json.BeginObject();
          const std::pair<std::string_view, std::optional<int64_t>> sizes[] = {
              {"heads", model->heads},
              {"kv_heads", model->kv_heads},
              {"head_dim", model->head_dim},
              {"hidden", model->hidden},
              {"intermediate", model->intermediate},
              {"layers", model->layers},
              {"vocab", model->vocab},
              {"experts", model->experts},
              {"experts_per_token", model->experts_per_token},
              {"moe_intermediate", model->moe_intermediate},
              {"max_positions", model->max_positions},
              {"latent_rank", model->latent_rank},
              {"quant_group", model->quant_group}};
          for (const auto& [name, size] : sizes) {
            if (size) json.Member(name, *size);
          }
          json.Members("tied", model->tied_embeddings, "type",
                       model->model_type, "quant_rows", model->quant_rows);
          json.EndObject();
        }));
  }

  void RunChecks() {
    for (const Check& check : system_.checks) {
      std::string why;
      const auto holds = values_->Condition(check.when, &why);
      if (!holds) {
        out_.not_checked.emplace_back(check.name, why);
        continue;
      }
      if (!*holds) continue;
      // A key may be given whose value is not known.
      const auto unknown = std::find_if(
          check.at.begin(), check.at.end(), [&](const std::string& key) {
            return undetermined_.contains(key) || hidden_.contains(key);
          });
      if (unknown != check.at.end()) {
        out_.not_checked.emplace_back(
            check.name, "the value of `" + *unknown + "` is not known");
        continue;
      }
      const Code& code =
          check.silent ? code::kConfigSilent : code::kConfigRefused;
      std::string help = values_->Write(check.help);
      AppendItem(help, help.empty() ? "" : "; ", "source: " + check.source);
      Finding& finding = findings_.Add(
          code, values_->PlaceOf(check.at, text_.place),
          values_->Write(check.says) +
              (check.checked.empty() ? "" : " (" + check.checked + ")"),
          std::move(help));
      finding.level = check.level;
      refused_ = refused_ || check.level == Level::kError;
    }
  }

  void Derive() {
    for (const auto& [name, expression] : system_.tree.let) {
      if (const auto text = values_->Text(expression)) {
        if (*text != "none") out_.derived.emplace_back(name, *text);
      }
    }
  }

  // Adds a finding whose level is that of its code, or a note.
  void Report(const Code& code, Place place, std::string message,
              std::string help = {}) {
    Finding finding;
    finding.code = &code;
    finding.level = inputs_.lenient ? Level::kNote : code.level;
    finding.place = std::move(place);
    finding.message = std::move(message);
    finding.help = std::move(help);
    findings_.Add(std::move(finding));
  }

  // Adds a finding that a value is not known.
  void Undetermined(const std::string& what, const std::string& why) {
    ReportUndetermined();
    if (!undetermined_.empty()) return;
    Report(
        code::kConfigUndetermined, text_.place, what + " not known: " + why,
        "give the number of devices as `--devices N`, the model's sizes as "
        "`--model config.json`, a key as `--set KEY=VALUE`, or a variable of "
        "a script as `--set env.NAME=VALUE`");
  }

  // Returns how to give the variable that a reason such as "`$TP` has no value
  // in this file" names; empty if it names none.
  static std::string GivenVariable(const std::string& why) {
    size_t at = why.find("`$");
    if (at == std::string::npos) return {};
    at += 2;
    size_t end = at;
    while (end < why.size() && IsWordByte(why[end])) ++end;
    if (end == at || IsDigit(why[at])) return {};
    return ", or the variable as `--set env." + why.substr(at, end - at) +
           "=VALUE`";
  }

  // Adds a finding for each key whose value the file does not have.
  void ReportUndetermined() {
    if (std::exchange(reported_, true)) return;
    for (const auto& [key, found] : undetermined_) {
      Report(
          code::kConfigUndetermined, found.first.place,
          "the value of " + ShortQuote(found.first.written) +
              " is not known: " + found.second,
          "give it as `--set " + key + "=VALUE`" + GivenVariable(found.second));
    }
  }

  bool MakeGrids() {
    for (const GridRow& row : system_.grids) {
      std::string why;
      if (row.when) {
        const auto holds = values_->Condition(*row.when, &why);
        if (!holds) {
          Undetermined("the axes of the ranks are", why);
          return false;
        }
        if (!*holds) continue;
      }
      Grid grid;
      Size world = 1;
      for (const std::string& axis : row.axes) {
        const auto size = values_->Named(axis, &why);
        if (!size) {
          Undetermined("the size of " + ShortQuote(axis) + " is", why);
          return false;
        }
        if (*size < 1) {
          if (!refused_) {
            findings_.Add(
                code::kConfigRefused, text_.place,
                "the size of " + ShortQuote(axis) + " is " +
                    std::to_string(*size),
                "give a number of devices that the other axes divide: "
                "`--devices N`");
          }
          return false;
        }
        world *= *size;
        grid.push_back({axis, *size});
      }
      if (!world.Fits() || world.value() > kMostRanks) {
        findings_.Add(code::kLimit, text_.place,
                      "the configuration has more than " +
                          CountText(kMostRanks) + " ranks");
        return false;
      }
      if (out_.world == 0) out_.world = world.value();
      if (world.value() != out_.world) {
        if (!refused_) {
          findings_.Add(code::kConfigRefused, text_.place,
                        "the axes " + Join(row.axes, ", ") + " have " +
                            CountText(world.value()) +
                            " ranks, and there are " + CountText(out_.world));
        }
        return false;
      }
      out_.grids.push_back(std::move(grid));
    }
    return !out_.grids.empty();
  }

  // An axis of a grid, as the range of products that it covers.
  struct Range {
    size_t grid = 0;
    std::string name;
    int64_t low = 1, high = 1;
  };

  void MakeMesh() {
    std::vector<Range> ranges;
    std::set<int64_t> products = {1};
    for (size_t g = 0; g < out_.grids.size(); ++g) {
      int64_t low = 1;
      for (auto axis = out_.grids[g].rbegin(); axis != out_.grids[g].rend();
           ++axis) {
        ranges.push_back({g, axis->name, low, low * axis->size});
        low *= axis->size;
        products.insert(low);
      }
    }
    const std::vector<int64_t> cuts(products.begin(), products.end());
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      if (cuts[i + 1] % cuts[i] == 0) continue;
      findings_.Add(
          code::kInexpressible, text_.place,
          "no mesh of axes has both grids of ranks: " + GridText(0) + " and " +
              GridText(1) + " meet at " + CountText(cuts[i]) + " and " +
              CountText(cuts[i + 1]) + " ranks",
          "choose sizes of which one divides the other, as of the tensor and "
          "the expert axis");
      return;
    }
    Mesh mesh;
    mesh.devices = out_.world;
    std::vector<std::string> names;  // of the segments, the fastest first
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      names.push_back(SegmentName(ranges, cuts[i], cuts[i + 1], names));
    }
    for (size_t i = names.size(); i-- > 0;) {
      mesh.axes.push_back({names[i], cuts[i + 1] / cuts[i]});
    }
    if (mesh.axes.empty()) mesh.axes.push_back({out_.grids[0].back().name, 1});
    for (const Range& range : ranges) {
      if (out_.axes.contains(range.name)) continue;
      AxisGroup& group = out_.axes[range.name];
      for (size_t i = names.size(); i-- > 0;) {
        if (cuts[i] >= range.low && cuts[i + 1] <= range.high) {
          group.push_back(names[i]);
        }
      }
    }
    out_.mesh = std::move(mesh);
  }

  static std::string SegmentName(const std::vector<Range>& ranges, int64_t low,
                                 int64_t high,
                                 const std::vector<std::string>& taken) {
    std::string joined;
    for (const Range& range : ranges) {
      if (range.low > low || range.high < high || range.low == range.high) {
        continue;
      }
      const bool whole = range.low == low && range.high == high;
      if (whole && !IsAmong(range.name, taken)) return range.name;
      if (joined.find(range.name) == std::string::npos) {
        AppendItem(joined, "_", range.name);
      }
    }
    while (IsAmong(joined, taken)) joined += "_more";
    return joined;
  }

  std::string GridText(size_t grid) const {
    if (grid >= out_.grids.size()) return {};
    return "`" +
           Join(out_.grids[grid], " ",
                [](const GridAxis& axis) {
                  return axis.name + "=" + std::to_string(axis.size);
                }) +
           "`";
  }

  void MakeStep() {
    for (const StepRow& row : system_.step) {
      const auto text = values_->Text(row.value);
      if (text && *text != "none" && !text->empty()) {
        out_.step.emplace_back(row.key, *text);
      }
    }
  }

  // Adds a finding if the command is none of the system's own: it runs another
  // kind of model, or a program that is taken for one of the system's.
  void CheckCommand() {
    if (text_.form != TextForm::kShell) return;
    for (const auto& [command, what] : system_.other_models) {
      if (!Runs(text_, {command})) continue;
      if (out_.no_model.empty()) {
        out_.no_model = "`" + command + "` trains another model: " + what;
      }
      return;
    }
    if (Runs(text_, system_.commands) || system_.commands.empty()) return;
    if (text_.settings.empty() || text_.words.empty()) return;
    std::string program;
    for (const std::string& word : text_.words) {
      if (program.empty() || word.ends_with(".py")) program = word;
    }
    for (const Setting& setting : text_.settings) {
      for (const Word& value : setting.values) {
        if (value.text.ends_with(".py")) program = value.text;
      }
    }
    Finding one;
    one.code = &code::kConfigUndetermined;
    one.level = inputs_.lenient ? Level::kNote : Level::kWarning;
    one.place = text_.place;
    one.message = ShortQuote(program) + " is read as " +
                  Quote(system_.commands.front()) + " of " + system_.title +
                  ", because of its keys";
    one.help = "other parameters than its model has are not in these figures";
    findings_.Add(std::move(one));
  }

  bool MakeManifest() {
    std::string why;
    for (const Check& opaque : system_.opaque) {
      if (out_.no_model.empty() &&
          values_->Condition(opaque.when).value_or(false)) {
        out_.no_model = values_->Write(opaque.says);
      }
    }
    if (!out_.no_model.empty()) return true;
    // What the system casts the parameters to; nullopt if it keeps their types.
    std::optional<Dtype> dtype;
    if (system_.dtype) {
      const auto name = values_->Text(*system_.dtype, &why);
      if (name) dtype = ParseDtype(*name);
    }
    if (inputs_.given_manifest) {
      out_.manifest = inputs_.given_manifest;
    } else if (!system_.tree.tree.empty()) {
      Findings own;
      out_.manifest = families::BuildTree(system_.tree, values_->root(),
                                          dtype.value_or(Dtype::kBF16), own);
      if (!out_.manifest) {
        // Without the sizes of a model, only the ranks are known.
        if (!own.empty()) why = own.all().front().message;
        if (out_.no_model.empty()) out_.no_model = why;
        ReportUndetermined();
        return true;
      }
    } else if (!out_.model_path.empty()) {
      out_.manifest = families::BuildTree(
          out_.model_path, "hf", findings_, inputs_.families,
          {.trained = true,
           .dtype = dtype ? std::string(DtypeName(*dtype)) : std::string()});
      if (!out_.manifest) return false;
    } else {
      out_.no_model = "no config.json of the model is given";
      return true;
    }
    return Pad();
  }

  // Returns the tensors that a selector selects, or nullopt after a finding.
  std::optional<std::vector<size_t>> Select(const Selector& selector) {
    std::vector<size_t> out;
    if (selector.when) {
      const auto holds = values_->Condition(*selector.when);
      if (!holds || !*holds) return out;
    }
    const auto& tensors = out_.manifest->tensors;
    if (!selector.match.empty()) {
      const auto regex = Regex::Compile(
          {selector.match, Place{system_.source}, '.'}, findings_);
      if (!regex) return std::nullopt;
      for (size_t i = 0; i < tensors.size(); ++i) {
        if (regex->Found(tensors[i].name)) out.push_back(i);
      }
      return out;
    }
    FindRoles();
    for (size_t i = 0; i < tensors.size(); ++i) {
      const ParameterRole& role = RoleOf(i);
      const bool routed = role.expert && !role.shared_expert;
      if (!selector.roles.empty() &&
          !IsAmong(role.module_role, selector.roles)) {
        continue;
      }
      if (selector.experts && *selector.experts != routed) continue;
      out.push_back(i);
    }
    return out;
  }

  void FindRoles() {
    if (parameters_) return;
    parameters_ = facts::FindParameters({.tensors = out_.manifest->tensors,
                                         .types = out_.manifest->types,
                                         .separator = '.'});
  }
  const ParameterRole& RoleOf(size_t tensor) const {
    return parameters_->Of(tensor).role();
  }

  bool Pad() {
    std::map<size_t, Shape> padded;
    for (const PadRow& row : system_.pads) {
      const auto tensors = Select(row.of);
      if (!tensors) return false;
      if (tensors->empty()) continue;
      const auto to = values_->Integer(row.to);
      if (!to) continue;
      for (const size_t i : *tensors) {
        const auto& type = out_.manifest->TypeOf(out_.manifest->tensors[i]);
        if (!type.shape || type.shape->empty() || (*type.shape)[0] >= *to) {
          continue;
        }
        Shape& shape = padded.emplace(i, *type.shape).first->second;
        shape[0] = *to;
      }
    }
    if (padded.empty()) return true;
    ManifestBuilder builder;
    const Manifest before = std::move(*out_.manifest);
    builder.manifest().separator = before.separator;
    builder.manifest().model = before.model;
    builder.manifest().naming = before.naming;
    builder.manifest().source = before.source;
    for (size_t i = 0; i < before.tensors.size(); ++i) {
      TensorType type = before.TypeOf(before.tensors[i]);
      const auto found = padded.find(i);
      if (found != padded.end()) type.shape = found->second;
      builder.Add(before.tensors[i].name, std::move(type));
    }
    out_.manifest = builder.Take();
    return true;
  }

  std::optional<std::vector<Share>> SharesOf(const std::vector<ShareRow>& rows,
                                             int64_t units) {
    std::vector<Share> out;
    for (const ShareRow& row : rows) {
      Share share;
      share.division = row.division;
      share.units = units;
      for (const std::string& axis : row.axes) {
        const int64_t size = SizeOf(axis);
        if (size > 1) share.axes.push_back(axis);
        share.parts *= size;
      }
      if (share.parts > 1) out.push_back(std::move(share));
    }
    return out;
  }

  int64_t SizeOf(std::string_view name) const {
    for (const Grid& grid : out_.grids) {
      for (const GridAxis& axis : grid) {
        if (axis.name == name) return axis.size;
      }
    }
    return 1;
  }

  bool MakePlacements() {
    const auto& tensors = out_.manifest->tensors;
    out_.placements.resize(tensors.size());
    std::vector<bool> done(tensors.size());
    for (const SplitRow& row : system_.splits) {
      const auto selected = Select(row.of);
      if (!selected) return false;
      std::optional<int64_t> units;
      for (const size_t i : *selected) {
        if (done[i]) continue;
        done[i] = true;
        if (row.units && !units) {
          std::string why;
          units = values_->Integer(*row.units, &why);
          if (!units || *units < 1) {
            Undetermined("the heads that are divided are", why);
            return false;
          }
        }
        if (!Place_(row, i, units.value_or(1))) return false;
      }
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!CheckEven(i)) return false;
    }
    return true;
  }

  // The output dimension of a tensor of experts whose leaf does not show it.
  int OutOf(size_t tensor, const Shape& shape) const {
    const int rank = static_cast<int>(shape.size());
    const int known = OutDim(RoleOf(tensor), rank);
    if (known >= 0 || rank < 2) return known;
    const auto hidden = values_->root().Find("model");
    const auto size = hidden ? hidden->Find("hidden") : std::nullopt;
    const bool down = RoleOf(tensor).module_role == Role::kDown;
    const auto at = AsIndex(rank);
    if (size && size->kind() == JsonKind::kInteger) {
      const bool last = shape[at - 1] == size->integer();
      const bool before = shape[at - 2] == size->integer();
      if (last != before) return (last != down) ? rank - 2 : rank - 1;
    }
    return rank - 2;
  }

  bool Place_(const SplitRow& row, size_t tensor, int64_t units) {
    Placement& placement = out_.placements[tensor];
    placement.parts = row.parts;
    const auto& type = out_.manifest->TypeOf(out_.manifest->tensors[tensor]);
    if (!type.shape) return true;
    const size_t rank = type.shape->size();
    placement.dims.resize(rank);
    if (!row.flat.empty()) {
      const auto elements = CheckedProduct(*type.shape);
      std::string why;
      const auto gathered = row.gathered ? values_->Integer(*row.gathered, &why)
                                         : std::optional<int64_t>(0);
      if (!gathered) {
        Undetermined("the size up to which parameters stay gathered is", why);
        return false;
      }
      const auto shares = SharesOf(row.flat, 1);
      if (!shares->empty() && elements && *elements > *gathered) {
        placement.flat = shares->front();
      }
    }
    for (size_t d = 0; d < std::min(rank, row.dims.size()); ++d) {
      placement.dims[d] = *SharesOf(row.dims[d], units);
      if (!placement.dims[d].empty() && d < placement.parts_dim + 1) {
        placement.parts_dim = d;
      }
    }
    if (row.out.empty() && row.in.empty() && row.count.empty()) return true;
    FindRoles();
    const int out = OutOf(tensor, *type.shape);
    const int in =
        out < 0 || rank < 2
            ? -1
            : (out == static_cast<int>(rank) - 1 ? out - 1 : out + 1);
    if (!row.count.empty() && rank == 3) {
      placement.dims[0] = *SharesOf(row.count, units);
    }
    // The bias of a module whose input is sharded is replicated.
    const bool bias = RoleOf(tensor).leaf == Leaf::kBias;
    const int of_out = rank == 1 ? (bias ? 0 : -1) : out;
    if (of_out >= 0) placement.parts_dim = AsIndex(of_out);
    if (!row.out.empty() && of_out >= 0) {
      placement.dims[AsIndex(of_out)] = *SharesOf(row.out, units);
    }
    if (!row.in.empty() && in >= 0 && rank > 1) {
      placement.dims[AsIndex(in)] = *SharesOf(row.in, units);
    }
    return true;
  }

  // Adds a finding if the system refuses sizes that the axes do not divide.
  bool CheckEven(size_t tensor) {
    const auto& one = out_.manifest->tensors[tensor];
    const auto& shape = out_.manifest->TypeOf(one).shape;
    if (!shape) return true;
    const Placement& placement = out_.placements[tensor];
    for (size_t d = 0; d < placement.dims.size(); ++d) {
      int64_t size = (*shape)[d];
      for (const Share& share : placement.dims[d]) {
        if ((share.division == Division::kExact ||
             share.division == Division::kReplicate) &&
            !IsEven(size, share)) {
          if (refused_) return false;
          findings_.Add(code::kConfigRefused, text_.place,
                        system_.title + " cannot divide dimension " +
                            std::to_string(d) + " of " + ShortQuote(one.name) +
                            ", " + CountText(size) + " elements, among the " +
                            CountText(share.parts) + " ranks of " +
                            ListInWords(share.axes, Quote),
                        "choose a size that divides it");
          return false;
        }
        size = PartOf(size, share, 0);
      }
    }
    return true;
  }

  void MakeStages() {
    const auto& tensors = out_.manifest->tensors;
    out_.stage_of.assign(tensors.size(), -1);
    if (!system_.stages) return;
    const StagesSection& section = *system_.stages;
    const int64_t ranks = SizeOf(section.axis);
    if (ranks <= 1) return;
    std::string why;
    const auto layers = values_->Integer(section.layers, &why);
    auto virtual_stages = values_->Integer(section.virtual_stages, &why);
    if (!layers || !virtual_stages) {
      Undetermined("the layers of the stages are", why);
      return;
    }
    DeployedStages stages;
    stages.axis = section.axis;
    stages.ranks = ranks;
    stages.virtual_stages = std::max(*virtual_stages, int64_t{1});
    auto divided = Divide(section, *layers, stages);
    if (!divided) {
      if (!refused_) {
        findings_.Add(code::kConfigRefused, text_.place,
                      CountText(*layers) + " layers cannot be divided among " +
                          CountText(ranks * stages.virtual_stages) +
                          " stages of the pipeline");
      }
      return;
    }
    stages.layers = std::move(*divided);
    stages.virtual_stages = static_cast<int64_t>(stages.layers.size()) / ranks;
    if (section.folded) {
      stages.folded = values_->Condition(*section.folded).value_or(false);
    }
    if (section.microbatches) {
      stages.microbatches = values_->Integer(*section.microbatches);
    }
    if (section.schedule) {
      stages.schedule = values_->Text(*section.schedule).value_or("");
    }
    AssignStages(section, stages);
    const bool copies =
        section.copies && values_->Condition(*section.copies).value_or(false);
    if (copies) {
      for (size_t i = 0; i < tensors.size(); ++i) {
        if (out_.stage_of[i] == 0 && !section.first.empty() &&
            tensors[i].name.find("embed") != std::string_view::npos &&
            out_.copied.empty()) {
          out_.copied = tensors[i].name;
        }
      }
    }
    out_.stages = std::move(stages);
  }

  std::optional<std::vector<int64_t>> Divide(const StagesSection& section,
                                             int64_t layers,
                                             const DeployedStages& stages) {
    for (const StageRow& row : section.rows) {
      if (row.when && !values_->Condition(*row.when).value_or(false)) continue;
      const int64_t count = stages.ranks * stages.virtual_stages;
      const int64_t first =
          row.first ? values_->Integer(*row.first).value_or(0) : 0;
      const int64_t last =
          row.last ? values_->Integer(*row.last).value_or(0) : 0;
      switch (row.method) {
        case StageMethod::kLayout: {
          const auto text =
              row.value ? values_->Text(*row.value) : std::nullopt;
          const auto layout = text ? ParseLayout(*text) : std::nullopt;
          if (!layout) return std::nullopt;
          const auto sum = Sum(layout->layers);
          const auto n = static_cast<int64_t>(layout->layers.size());
          if (sum != layers || n % stages.ranks != 0) return std::nullopt;
          return layout->layers;
        }
        case StageMethod::kListed: {
          const auto text =
              row.value ? values_->Text(*row.value) : std::nullopt;
          const auto listed = text ? ParseNumbers(*text) : std::nullopt;
          if (!listed || Sum(*listed) != layers ||
              static_cast<int64_t>(listed->size()) % stages.ranks != 0) {
            return std::nullopt;
          }
          return listed;
        }
        case StageMethod::kEven:
          return Even(layers, count, row, first, last);
        default:
          return Spread(layers, count, row.method, first, last);
      }
    }
    return std::nullopt;
  }

  static int64_t Sum(const std::vector<int64_t>& numbers) {
    int64_t sum = 0;
    for (const int64_t one : numbers) sum += one;
    return sum;
  }

  static std::optional<std::vector<int64_t>> Even(int64_t layers, int64_t count,
                                                  const StageRow& row,
                                                  int64_t first, int64_t last) {
    (void)row;
    const int64_t own = (first > 0 ? 1 : 0) + (last > 0 ? 1 : 0);
    const int64_t rest = layers - first - last;
    if (count <= own || rest < 0 || rest % (count - own) != 0) {
      return std::nullopt;
    }
    std::vector<int64_t> out(AsIndex(count), rest / (count - own));
    if (first > 0) out.front() = first;
    if (last > 0) out.back() = last;
    return out;
  }

  static std::optional<std::vector<int64_t>> Spread(int64_t layers,
                                                    int64_t count,
                                                    StageMethod method,
                                                    int64_t first,
                                                    int64_t last) {
    const int64_t units = layers + first + last;
    std::vector<int64_t> out(AsIndex(count), units / count);
    for (int64_t i = 0; i < units % count; ++i) {
      const int64_t at = method == StageMethod::kFirst  ? i
                         : method == StageMethod::kLast ? count - 1 - i
                                                        : count - 2 - i;
      ++out[AsIndex(at)];
    }
    out.front() -= first;
    out.back() -= last;
    if (out.front() < 0 || out.back() < 0) return std::nullopt;
    return out;
  }

  void AssignStages(const StagesSection& section,
                    const DeployedStages& stages) {
    const auto layer = Regex::Compile(
        {section.pattern, Place{system_.source}, '.'}, findings_);
    const auto compile = [&](const std::vector<std::string>& patterns) {
      std::vector<Regex> out;
      for (const std::string& pattern : patterns) {
        auto one =
            Regex::Compile({pattern, Place{system_.source}, '.'}, findings_);
        if (one) out.push_back(std::move(*one));
      }
      return out;
    };
    const auto first = compile(section.first), last = compile(section.last);
    const auto found = [](const std::vector<Regex>& all,
                          std::string_view name) {
      return std::any_of(all.begin(), all.end(),
                         [&](const Regex& one) { return one.Found(name); });
    };
    if (!layer) return;
    for (size_t i = 0; i < out_.manifest->tensors.size(); ++i) {
      const std::string_view name = out_.manifest->tensors[i].name;
      if (const auto number = layer->Group1(name)) {
        int64_t left = 0;
        for (const char c : *number) {
          left = std::min<int64_t>(left * 10 + (c - '0'), 1 << 30);
        }
        for (size_t s = 0; s < stages.layers.size(); ++s) {
          if (left < stages.layers[s]) {
            out_.stage_of[i] = static_cast<int64_t>(s);
            break;
          }
          left -= stages.layers[s];
        }
      } else if (found(first, name)) {
        out_.stage_of[i] = 0;
      } else if (found(last, name)) {
        out_.stage_of[i] = static_cast<int64_t>(stages.layers.size()) - 1;
      }
    }
  }

  const System& system_;
  const ConfigText& text_;
  const std::vector<Unshown>& unshown_;
  const ConfigInputs& inputs_;
  Findings& findings_;
  Deployment out_;
  std::map<std::string, KnownValue> known_;
  std::map<std::string, std::pair<Setting, std::string>> undetermined_;
  std::map<std::string, std::string> hidden_;  // keys that are elsewhere
  std::vector<const Setting*> unknown_;  // keys that the system does not have
  std::vector<std::pair<std::string, std::string>> sections_;
  std::unique_ptr<Values> values_;
  // What the tensors of the model do; found at the first use.
  std::optional<facts::ParameterTable> parameters_;
  bool refused_ = false;
  bool reported_ = false;  // whether values that are not known are reported
};

}  // namespace

int64_t DeployedStages::RankOf(int64_t stage) const {
  if (!folded) return stage % ranks;
  const int64_t in_round = stage % (2 * ranks);
  return in_round < ranks ? in_round : 2 * ranks - 1 - in_round;
}

int64_t Deployment::CoordinateOf(int64_t rank, std::string_view axis) const {
  for (const Grid& grid : grids) {
    int64_t stride = 1;
    for (auto at = grid.rbegin(); at != grid.rend(); ++at) {
      if (at->name == axis) return rank / stride % at->size;
      stride *= at->size;
    }
  }
  return 0;
}

Shape Deployment::LocalShape(size_t tensor, int64_t rank) const {
  const auto& type = manifest->TypeOf(manifest->tensors[tensor]);
  Shape shape = type.shape.value_or(Shape());
  const Placement& placement = placements[tensor];
  if (placement.flat.parts > 1) {
    const int64_t elements = CheckedProduct(shape).value_or(0);
    return {CeilDiv(elements, placement.flat.parts)};
  }
  for (size_t d = 0; d < std::min(shape.size(), placement.dims.size()); ++d) {
    for (const Share& share : placement.dims[d]) {
      int64_t index = 0;
      for (const std::string& axis : share.axes) {
        int64_t size = 1;
        for (const Grid& grid : grids) {
          for (const GridAxis& one : grid) {
            if (one.name == axis) size = one.size;
          }
        }
        index = index * size + CoordinateOf(rank, axis);
      }
      shape[d] = PartOf(shape[d], share, index);
    }
  }
  return shape;
}

std::vector<HeldParameter> Deployment::HeldBy(int64_t rank) const {
  std::vector<HeldParameter> out;
  if (!manifest) return out;
  const int64_t own = stages ? CoordinateOf(rank, stages->axis) : 0;
  const int64_t last =
      stages ? static_cast<int64_t>(stages->layers.size()) - 1 : 0;
  for (size_t i = 0; i < manifest->tensors.size(); ++i) {
    const int64_t stage = i < stage_of.size() ? stage_of[i] : -1;
    if (stages && stage >= 0 && stages->RankOf(stage) != own) {
      const bool copy = !copied.empty() &&
                        manifest->tensors[i].name == copied &&
                        stages->RankOf(last) == own;
      if (!copy) continue;
    }
    out.push_back({i, LocalShape(i, rank)});
  }
  return out;
}

std::optional<int64_t> Deployment::BytesOf(int64_t rank) const {
  Size total = 0;
  for (const HeldParameter& held : HeldBy(rank)) {
    const auto& type = manifest->TypeOf(manifest->tensors[held.tensor]);
    const auto elements = CheckedProduct(held.shape);
    if (!elements || !type.dtype) return std::nullopt;
    const auto bytes = shardc::BytesOf(*elements, *type.dtype);
    if (!bytes) return std::nullopt;
    total = total + *bytes;
  }
  return total.Checked();
}

Divides DividesRanks(const System& system, const ConfigText& text) {
  Divides out = Divides::kNot;
  for (const Setting& setting : text.settings) {
    const SystemKey* key = system.FindKey(setting.key);
    if (key == nullptr || !IsAmong(key->name, system.marks)) continue;
    constexpr std::string_view kTrivial[] = {"1", "None", "null", "-1"};
    const bool trivial = !setting.values.empty() &&
                         setting.values[0].unknown.empty() &&
                         IsAmong(setting.values[0].text, kTrivial);
    if (!trivial) return Divides::kYes;
    out = Divides::kTrivially;
  }
  return out;
}

bool IsOf(const System& system, const ConfigText& text) {
  if (text.form == TextForm::kShell) {
    // Commands that name a script without running it.
    constexpr std::string_view kOthers[] = {"[",    "[[",    "test", "mkdir",
                                            "echo", "cp",    "ls",   "cat",
                                            "cd",   "pkill", "grep", "printf"};
    if (!text.words.empty() && IsAmong(text.words.front(), kOthers)) {
      return false;
    }
    if (Runs(text, system.commands)) return true;
  }
  if (DividesRanks(system, text) == Divides::kNot) return false;
  if (text.form == TextForm::kShell) {
    return system.commands.empty() || system.any_command;
  }
  return true;
}

namespace {

// Adds a finding for each variable that the text does not use.
void CheckNames(const System& system, const Source& source,
                const Environment& environment, Findings& findings) {
  for (const auto& [name, text] : environment) {
    bool used = system.FindKey("env." + name) != nullptr;
    for (const std::string_view sign : {"$", "${", "$((", "oc.env:", "$("}) {
      used = used ||
             source.text().find(std::string(sign) + name) != std::string::npos;
    }
    // A file that the script sources may use it.
    used = used || source.text().find("source ") != std::string::npos;
    if (used) continue;
    findings.Add(code::kUsage,
                 Place{MakeSource("--set", "env." + name + "=" + text), 0,
                       name.size() + 4},
                 "no text of the file has the variable `" + name + "`",
                 "write `--set env.NAME=VALUE` with a name that follows a `$` "
                 "in the file");
  }
}

}  // namespace

std::optional<ConfigText> ReadConfig(const System& system,
                                     const SourceRef& source,
                                     const std::string& name,
                                     Findings& findings,
                                     const Environment& environment) {
  const size_t before = findings.errors();
  auto texts = ReadConfigTexts(source, findings, environment);
  CheckNames(system, *source, environment, findings);
  if (findings.errors() > before) return std::nullopt;
  const bool marked =
      std::any_of(texts.begin(), texts.end(),
                  [&](const ConfigText& text) { return IsOf(system, text); });
  // A mapping without a mark, in which all axes have their defaults, is of the
  // system that the user names if it has a key of it.
  std::erase_if(texts, [&](const ConfigText& text) {
    if (marked) return !IsOf(system, text);
    return text.form == TextForm::kShell || text.form == TextForm::kPython ||
           std::none_of(text.settings.begin(), text.settings.end(),
                        [&](const Setting& setting) {
                          return system.FindKey(setting.key) != nullptr;
                        });
  });
  // A command with keys of parallelism comes before one without.
  std::stable_partition(texts.begin(), texts.end(),
                        [&](const ConfigText& text) {
                          return DividesRanks(system, text) != Divides::kNot;
                        });
  std::vector<std::string> names;
  for (const ConfigText& text : texts) {
    if (!text.name.empty()) names.push_back(text.name);
  }
  if (!name.empty()) {
    for (ConfigText& text : texts) {
      if (text.name == name) return std::move(text);
    }
    findings.Add(code::kReference, Place{source},
                 "there is no configuration " + ShortQuote(name),
                 DidYouMean(name, names,
                            names.empty() ? "configurations of this file have "
                                            "no names"
                                          : "there are: " + Join(names, ", ")));
    return std::nullopt;
  }
  if (texts.empty()) {
    findings.Add(code::kConfigNotUnderstood, Place{source},
                 "there is no configuration of " + system.title + " here",
                 system.commands.empty()
                     ? "it has at least one of the keys " +
                           Join(system.marks, ", ", Quote)
                     : "a command runs one of " +
                           Join(system.commands, ", ", Quote) +
                           ", and a mapping has one of the keys " +
                           Join(system.marks, ", ", Quote));
    return std::nullopt;
  }
  if (names.size() > 1) {
    findings.Add(code::kUsage, Place{source},
                 "there are " + CountText(static_cast<int64_t>(names.size())) +
                     " configurations here",
                 "choose one with `--symbol`: " + Join(names, ", "));
    return std::nullopt;
  }
  const auto commands =
      std::count_if(texts.begin(), texts.end(), [&](const ConfigText& text) {
        return DividesRanks(system, text) != Divides::kNot;
      });
  if (commands > 1 && texts.front().form == TextForm::kShell) {
    Finding one;
    one.code = &code::kConfigUndetermined;
    one.level = Level::kWarning;
    one.place = texts.front().place;
    one.message = "this is the first of " + CountText(commands) +
                  " commands of " + system.title + " in the file";
    one.help = "write a file for each of them";
    findings.Add(std::move(one));
  }
  return std::move(texts.front());
}

std::optional<Deployment> Deploy(const System& system, const ConfigText& text,
                                 const ConfigInputs& inputs,
                                 Findings& findings) {
  return Deployer(system, Follow(system, text), inputs, findings).Run();
}

std::optional<std::string> RulesOf(const Deployment& deployment,
                                   Findings& findings) {
  if (!deployment.manifest || !deployment.mesh) return std::nullopt;
  const size_t before = findings.errors();
  const Manifest& manifest = *deployment.manifest;
  struct Group {
    std::string spec;
    int64_t parts = 1;
    size_t parts_dim = 0;
  };
  std::vector<std::pair<std::string, Group>> groups;
  std::map<std::string, size_t> index;
  bool pads = false, replicates = false, flat = false;
  const Place whole{deployment.source};
  for (size_t i = 0; i < manifest.tensors.size(); ++i) {
    const std::string_view name = manifest.tensors[i].name;
    const auto& shape = manifest.TypeOf(manifest.tensors[i]).shape;
    const Placement& placement = deployment.placements[i];
    Spec spec;
    for (size_t d = 0; d < placement.dims.size(); ++d) {
      AxisGroup& group = spec.emplace_back();
      int64_t size = shape ? (*shape)[d] : 0;
      for (const Share& share : placement.dims[d]) {
        if (share.division == Division::kReplicate &&
            share.parts > share.units) {
          replicates = true;
        }
        if (!IsEven(size, share)) {
          if (!IsChunked(size, share)) {
            std::string sizes;
            for (int64_t p = 0; p < std::min<int64_t>(share.parts, 8); ++p) {
              AppendItem(sizes, ", ", std::to_string(PartOf(size, share, p)));
            }
            findings.Add(code::kInexpressible, whole,
                         "a plan cannot state the parts of dimension " +
                             std::to_string(d) + " of " + ShortQuote(name) +
                             ", which are " + sizes,
                         "`shardc show config` prints what each rank holds");
            return std::nullopt;
          }
          pads = true;
        }
        for (const std::string& axis : share.axes) {
          const auto found = deployment.axes.find(axis);
          if (found == deployment.axes.end()) continue;
          group.insert(group.end(), found->second.begin(), found->second.end());
        }
        size = PartOf(size, share, 0);
      }
    }
    if (placement.flat.parts > 1 && shape) {
      // A plan shards a dimension. The bytes are those of the flat parts if the
      // dimension is divided equally.
      size_t dim = 0;
      for (size_t d = shape->size(); d-- > 0;) {
        if ((*shape)[d] % placement.flat.parts == 0) dim = d;
      }
      if (shape->empty()) continue;
      spec.resize(std::max(spec.size(), dim + 1));
      pads = pads || (*shape)[dim] % placement.flat.parts != 0;
      flat = true;
      for (const std::string& axis : placement.flat.axes) {
        const auto found = deployment.axes.find(axis);
        if (found == deployment.axes.end()) continue;
        spec[dim].insert(spec[dim].end(), found->second.begin(),
                         found->second.end());
      }
    }
    while (!spec.empty() && spec.back().empty()) spec.pop_back();
    Group one{SpecText(spec), placement.parts, placement.parts_dim};
    std::string pattern = FoldNumbers(name, "\n");
    const auto [found, fresh] = index.emplace(pattern, groups.size());
    if (fresh) {
      groups.emplace_back(std::move(pattern), std::move(one));
    } else if (groups[found->second].second.spec != one.spec) {
      groups.emplace_back(std::string(name), std::move(one));
      std::rotate(groups.begin(), groups.end() - 1, groups.end());
      for (auto& [known, at] : index) ++at;
    }
  }
  std::string out = "# What " + deployment.system->title + " " +
                    deployment.system->versions + " does with " +
                    deployment.source->name() + ".\n";
  if (flat) {
    out +=
        "# It divides parameters as flat buffers; a rule shards a dimension, "
        "with the same\n# bytes where the ranks divide it.\n";
  }
  out += "version: 1\n";
  if (pads) out += "policy: {illegal: pad}\n";
  if (replicates) out += "kv_replicate: true\n";
  if (deployment.stages) {
    const DeployedStages& stages = *deployment.stages;
    const StagesSection& section = *deployment.system->stages;
    AxisGroup axis;
    const auto found = deployment.axes.find(stages.axis);
    if (found != deployment.axes.end()) axis = found->second;
    if (axis.size() != 1) {
      findings.Add(code::kInexpressible, whole,
                   "the axis of the pipeline is not one axis of the mesh");
      return std::nullopt;
    }
    const auto list = [](const std::vector<std::string>& texts) {
      return "[" +
             Join(texts, ", ",
                  [](const std::string& text) { return "'" + text + "'"; }) +
             "]";
    };
    out += "stages:\n  axis: " + axis[0] + "\n";
    if (stages.virtual_stages > 1) {
      out += "  virtual: " + std::to_string(stages.virtual_stages) + "\n";
    }
    if (!stages.schedule.empty() && stages.schedule != "none") {
      out += "  schedule: " + stages.schedule + "\n";
    }
    if (stages.microbatches && *stages.microbatches > 0) {
      out += "  microbatches: " + std::to_string(*stages.microbatches) + "\n";
    }
    out += "  assign: [" + Join(stages.layers, ", ") + "]\n";
    out += "  layers: '" + section.pattern + "'\n";
    out += "  first: " + list(section.first) + "\n";
    out += "  last: " + list(section.last) + "\n";
    if (!deployment.copied.empty()) out += "  tied: copies\n";
  }
  out += "rules:\n";
  for (const auto& [folded, group] : groups) {
    std::string pattern = "^";
    for (const char c : folded) {
      if (c == '\n') {
        pattern += "[0-9]+";
      } else {
        if (std::string_view("\\.+*?()|[]{}^$").find(c) !=
            std::string_view::npos) {
          pattern += '\\';
        }
        pattern += c;
      }
    }
    out +=
        "  - {match: " + SingleQuoted(pattern + "$") + ", spec: " + group.spec;
    if (group.parts > 1 && group.spec != "[]") {
      out += ", parts: [";
      for (size_t d = 0; d < group.parts_dim; ++d) out += "null, ";
      out += std::to_string(group.parts) + "]";
    }
    out += "}\n";
  }
  if (findings.errors() > before) return std::nullopt;
  return out;
}

}  // namespace shardc::systems
