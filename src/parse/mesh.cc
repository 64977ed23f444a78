// Reads a mesh from a file, from a mapping of a project file, or from a string
// such as `dp:2`, which is parsed here. The result is a MeshDraft, the mesh as
// it is written, which mesh_finish.cc completes. If a file has the same name as
// the string, the file is read.
//
//   "dp:2, tp:-1" with 8 devices  ->  dp 2, tp 4
#include "parse/mesh.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "parse/mesh_finish.h"
#include "parse/mesh_yaml.h"
#include "source/file.h"
#include "source/wording.h"
#include "yaml/error.h"

namespace shardc {
namespace {

// Returns the text `tp8,dp2` as `tp:8,dp:2`. Returns an empty string if an
// entry of the text is not a name followed by digits.
std::string WithColons(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view entry = text.substr(0, text.find(','));
    const size_t digits = entry.find_first_of("0123456789");
    if (digits == 0 || digits == entry.npos ||
        entry.find_first_not_of("0123456789", digits) != entry.npos ||
        !AxisNameFault(std::string(entry.substr(0, digits))).empty()) {
      return {};
    }
    out.append(out.empty() ? "" : ",").append(entry.substr(0, digits));
    out.append(":").append(entry.substr(digits));
    text.remove_prefix(std::min(text.size(), entry.size() + 1));
  }
  return out;
}

// Returns `fsdp:2,tp:4` for `2x4` and `fsdp:8` for `8`. Returns an empty string
// for texts that are not one to three sizes joined by `x` or `*`.
std::string WithNames(std::string_view text) {
  constexpr std::array<std::string_view, 3> kNames = {"dp", "fsdp", "tp"};
  std::vector<std::string_view> sizes;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of("xX*"), text.size());
    sizes.push_back(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));
    if (sizes.back().empty() || sizes.size() > kNames.size() ||
        sizes.back().find_first_not_of("0123456789") != sizes.back().npos) {
      return {};
    }
  }
  const size_t first = sizes.size() > 2 ? 0 : 1;
  std::string out;
  for (size_t i = 0; i < sizes.size(); ++i) {
    out += (i == 0 ? "" : ",") + std::string(kNames[first + i]) + ":" +
           std::string(sizes[i]);
  }
  return out;
}

std::optional<Mesh> ParseInline(const Place& place,
                                std::optional<int64_t> devices,
                                Findings& findings) {
  const auto document = YamlDocument::Parse(place.source, findings);
  if (!document) return std::nullopt;
  const YamlNode* node = FindNode(document->root(), place);
  if (node == nullptr) return std::nullopt;
  return ReadMeshNode({*document, findings}, *node, devices);
}

// The names of the axes if a mesh is given only as sizes, such as `1,8,1,2,1`.
// Five sizes are those of the JAX library eformer. Four sizes are those of its
// predecessor fjformer, which had no expert parallelism.
constexpr std::array<std::string_view, 5> kFiveAxes = {"dp", "fsdp", "ep", "tp",
                                                       "sp"};
constexpr std::array<std::string_view, 4> kFourAxes = {"dp", "fsdp", "tp",
                                                       "sp"};

std::span<const std::string_view> DefaultAxes(size_t sizes) {
  if (sizes == kFiveAxes.size()) return kFiveAxes;
  if (sizes == kFourAxes.size()) return kFourAxes;
  return {};
}

bool IsSizes(std::string_view text) {
  if (text.starts_with('!')) text.remove_prefix(1);
  return text.find(',') != std::string_view::npos &&
         text.find_first_of("0123456789") != std::string_view::npos &&
         text.find_first_not_of("0123456789-, \t") == std::string_view::npos;
}

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

// Reads one entry of a mesh string, such as `dp:2`. The entry is a byte range
// of the source.
class EntryReader {
 public:
  EntryReader(SourceRef source, Findings& findings)
      : source_(std::move(source)), findings_(findings) {}

  std::optional<MeshDraft::Axis> Read(size_t begin, size_t end) {
    Trim(begin, end);
    const std::string_view text = source_->text();
    const size_t mark = text.substr(0, end).find_first_of(":=", begin);
    if (mark == std::string_view::npos) {
      Add(code::kSchema, begin, end,
          begin == end
              ? "an empty entry between commas"
              : "entry " + Shown(begin, end) + " is no axis with a size",
          "write `name:size`, such as `dp:2,tp:4`");
      return std::nullopt;
    }
    size_t name_end = mark;
    size_t name_begin = begin;
    Trim(name_begin, name_end);
    size_t size_begin = mark + 1;
    size_t size_end = end;
    Trim(size_begin, size_end);
    const auto name = Name(name_begin, name_end);
    if (!name) return std::nullopt;
    const auto size = Size(size_begin, size_end,
                           text.substr(name_begin, name_end - name_begin));
    if (!size) return std::nullopt;
    return MeshDraft::Axis{
        *name, *size, AxisType::kAuto, {source_, begin, end}};
  }

  std::optional<MeshDraft::Axis> ReadSize(size_t begin, size_t end,
                                          std::string_view axis) {
    Trim(begin, end);
    const auto size = Size(begin, end, axis);
    if (!size) return std::nullopt;
    return MeshDraft::Axis{
        std::string(axis), *size, AxisType::kAuto, {source_, begin, end}};
  }

 private:
  void Trim(size_t& begin, size_t& end) const {
    const std::string_view text = source_->text();
    while (begin < end && IsBlank(text[begin])) ++begin;
    while (end > begin && IsBlank(text[end - 1])) --end;
  }
  std::string Shown(size_t begin, size_t end) const {
    return ShortQuote(source_->text().substr(begin, end - begin));
  }
  Finding& Add(const Code& code, size_t begin, size_t end, std::string message,
               std::string help = {}) {
    return findings_.Add(code, {source_, begin, end}, std::move(message),
                         std::move(help));
  }

  std::optional<std::string> Name(size_t begin, size_t end) {
    const std::string name(source_->text().substr(begin, end - begin));
    const std::string fault = AxisNameFault(name);
    if (fault.empty()) return name;
    Add(code::kAxisName, begin, end,
        "axis name " + Shown(begin, end) + " " + fault,
        "write `name:size`, such as `dp:2,tp:4`");
    return std::nullopt;
  }

  std::optional<int64_t> Size(size_t begin, size_t end, std::string_view axis) {
    const std::string subject = "the size of axis " + ShortQuote(axis) + " ";
    IntegerFault fault;
    const std::string_view digits = source_->text().substr(begin, end - begin);
    const auto size = ParseInteger(digits, kAnyInteger, &fault);
    if (!size && digits.find_first_of(":=") != std::string_view::npos) {
      Add(code::kNumber, begin, end, subject + fault.message,
          "separate the axes by commas, such as `dp:2,tp:4`");
    } else if (!size) {
      Add(code::kNumber, begin, end, subject + fault.message, fault.help);
    } else if (*size == 0 || *size < -1) {
      Add(code::kNumber, begin, end, subject + "is " + std::to_string(*size),
          "a size is 1 or more, or -1 for what remains");
      return std::nullopt;
    }
    return size;
  }

  SourceRef source_;
  Findings& findings_;
};

bool CheckDistinct(const MeshDraft& draft, Findings& findings) {
  bool good = true;
  for (size_t i = 0; i < draft.axes.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (draft.axes[i].name != draft.axes[j].name) continue;
      findings
          .Add(code::kDuplicateKey, draft.axes[i].place,
               "axis `" + draft.axes[i].name + "` is given twice",
               "remove one of the two")
          .labels.push_back({draft.axes[j].place, "first given here"});
      good = false;
      break;
    }
  }
  return good;
}

// Converts a place in a mesh string to a place in the project file. `value` is
// the place of the YAML scalar that contains the string. Returns `value` itself
// if the scalar spells the string differently, for example with escapes.
Place PlaceInFile(const Place& place, const SourceRef& text,
                  const Place& value) {
  if (place.source != text) return place;
  const std::string_view written =
      value.source->text().substr(value.begin, value.end - value.begin);
  const size_t at = written.find(text->text());
  if (!place.HasPosition() || at == std::string_view::npos) return value;
  const size_t begin = value.begin + at;
  return {value.source, begin + place.begin, begin + place.end};
}

// Parses a mesh string `text`, which is a scalar at the place `value` of a
// project file.
std::optional<Mesh> ParseMeshIn(const Place& value, const std::string& text,
                                std::optional<int64_t> devices,
                                Findings& findings) {
  const SourceRef source = MakeSource("--mesh", text);
  Findings own;
  auto mesh = ParseMeshString(source, devices, own);
  for (Finding finding : own.all()) {
    finding.place = PlaceInFile(finding.place, source, value);
    for (Label& label : finding.labels) {
      label.place = PlaceInFile(label.place, source, value);
    }
    findings.Add(std::move(finding));
  }
  return mesh;
}

}  // namespace

bool IsMeshText(std::string_view text) {
  return text.find_first_of(":=") != std::string_view::npos || IsSizes(text);
}

std::optional<Mesh> ParseMesh(SourceRef source, std::optional<int64_t> devices,
                              Findings& findings) {
  const size_t before = findings.errors();
  const auto document = YamlDocument::Parse(std::move(source), findings);
  if (!document) return std::nullopt;
  auto mesh = ReadMeshNode({*document, findings}, document->root(), devices);
  if (findings.errors() > before) return std::nullopt;
  return mesh;
}

std::optional<Mesh> ParseMeshString(SourceRef source,
                                    std::optional<int64_t> devices,
                                    Findings& findings) {
  const size_t before = findings.errors();
  const std::string_view text = source->text();
  MeshDraft draft;
  draft.place = {source, 0, text.size()};
  if (devices) draft.devices = {*devices, draft.place};
  if (text.find('{') != std::string_view::npos) {
    findings.Add(code::kSchema, draft.place,
                 ShortQuote(text) + " is YAML or JSON, not axes with sizes",
                 "write `dp:2,tp:4`, or give the name of a YAML file");
    return std::nullopt;
  }
  EntryReader reader(source, findings);
  const bool sizes = IsSizes(text);
  const auto count =
      static_cast<size_t>(std::count(text.begin(), text.end(), ',')) + 1;
  const auto axes = DefaultAxes(count);
  if (sizes && axes.empty()) {
    findings.Add(code::kSchema, draft.place,
                 Counted(static_cast<int64_t>(count), "size") +
                     " without the names of axes",
                 "name them, such as `dp:2,tp:4`; four sizes alone are those "
                 "of dp, fsdp, tp and sp, five those of dp, fsdp, ep, tp and "
                 "sp");
    return std::nullopt;
  }
  // Skip a leading `!`. In eformer, `!` requests row-major order of devices,
  // which shardc always uses.
  size_t begin = text.starts_with('!') ? 1 : 0;
  for (size_t i = 0; begin <= text.size() && !findings.Full(); ++i) {
    const size_t end = std::min(text.find(',', begin), text.size());
    auto axis =
        sizes ? reader.ReadSize(begin, end, axes[i]) : reader.Read(begin, end);
    if (axis) draft.axes.push_back(std::move(*axis));
    begin = end + 1;
  }
  if (draft.axes.size() > kAxisLimit) {
    findings.Add(
        code::kLimit, draft.place,
        Counted(static_cast<int64_t>(draft.axes.size()), "axis", "axes") +
            " in a mesh",
        "the limit is " + CountText(static_cast<int64_t>(kAxisLimit)));
    return std::nullopt;
  }
  if (findings.errors() > before || !CheckDistinct(draft, findings)) {
    return std::nullopt;
  }
  return FinishMesh(draft, findings);
}

std::optional<Mesh> ReadMesh(const std::string& file_or_text,
                             std::optional<int64_t> devices, Findings& findings,
                             const FileTexts* texts) {
  if (IsMeshText(file_or_text) && !IsThere(file_or_text, texts)) {
    return ParseMeshString(MakeSource("--mesh", file_or_text), devices,
                           findings);
  }
  Findings own;
  SourceRef source = ReadSource(file_or_text, texts, own);
  findings.NoteReadsOf(own);
  const std::string axes = WithColons(file_or_text);
  const bool meant = source == nullptr && !axes.empty();
  const std::string named = WithNames(file_or_text);
  if (source == nullptr && !named.empty()) {
    findings.Add(code::kSchema,
                 {MakeSource("--mesh", file_or_text), 0, file_or_text.size()},
                 "`" + file_or_text + "` has sizes without the names of axes",
                 "name each axis, such as `" + named + "`");
    return std::nullopt;
  }
  for (Finding finding : own.all()) {
    if (meant) finding.help = "axes are written `" + axes + "`";
    if (source == nullptr && finding.help.empty()) {
      finding.help = "a mesh is a file, or axes such as `dp:2,tp:4`";
    }
    findings.Add(std::move(finding));
  }
  if (source == nullptr) return std::nullopt;
  return ParseMesh(std::move(source), devices, findings);
}

std::optional<Mesh> ReadMesh(const MeshInput& input,
                             std::optional<int64_t> devices, Findings& findings,
                             const FileTexts* texts) {
  if (input.inline_place) {
    return ParseInline(*input.inline_place, devices, findings);
  }
  if (input.text_place) {
    return ParseMeshIn(*input.text_place, input.text, devices, findings);
  }
  if (!input.text.empty()) {
    return ParseMeshString(MakeSource("--mesh", input.text), devices, findings);
  }
  return ReadMesh(input.file, devices, findings, texts);
}

}  // namespace shardc
