// Reads the `audit` section of a target. Only checks of compiled programs need
// this section, so it is not a member of Target (model/project.h). The text of
// the project is parsed again here. For example:
//
//   budget: {total: 12GiB, all_gather: {tp: 0}}
//     ->  a device sends at most 12 GiB in total, and 0 bytes in all-gathers
//         over tp
#include "parse/audit_read.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parse/keys.h"
#include "source/boundary.h"
#include "source/file.h"
#include "yaml/error.h"
#include "yaml/read.h"

namespace shardc {
namespace {

constexpr std::string_view kSums[] = {"total", "activations_gathered"};

using Names = std::span<const std::string_view>;

bool IsOneOf(Names names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Returns the names of all entries that a budget may have, as a text such as
// "there are total, activations_gathered, all_gather and ppermute".
std::string EntriesText(Names collectives) {
  std::string out = "there are ";
  for (const std::string_view sum : kSums) out += std::string(sum) + ", ";
  for (size_t i = 0; i < collectives.size(); ++i) {
    if (i > 0) out += i + 1 == collectives.size() ? " and " : ", ";
    out += collectives[i];
  }
  return out;
}

void ReadLimit(const YamlContext& context, const YamlNode& node, AuditLimit out,
               std::vector<AuditLimit>& to) {
  // A budget may be 0 bytes, which ReadBytes does not accept.
  if (node.IsScalar() && node.text == "0") {
    out.bytes = 0;
  } else if (const auto bytes = ReadBytes(context, node, "a budget")) {
    out.bytes = *bytes;
  } else {
    return;
  }
  out.place = context.document.PlaceOf(node);
  to.push_back(std::move(out));
}

std::vector<AuditLimit> ReadBudget(const YamlContext& context,
                                   Names collectives, const YamlNode& node) {
  std::vector<AuditLimit> out;
  if (!node.IsMapping()) {
    context.Add(code::kSchema, node,
                "`budget` is " + Describe(node) + ", not a mapping",
                "write `budget: {total: 12GiB, all_gather: {tp: 0}}`");
    return out;
  }
  for (const YamlMember& member : node.members) {
    const std::string name(member.key.text);
    const bool kind = IsOneOf(collectives, name);
    if (!kind && !IsOneOf(kSums, name)) {
      context.Add(code::kSchema, member.key,
                  "`budget` has no entry `" + name + "`",
                  EntriesText(collectives));
      continue;
    }
    if (!kind || !member.value.IsMapping()) {
      ReadLimit(context, member.value, {name, "", 0, {}}, out);
      continue;
    }
    for (const YamlMember& axes : member.value.members) {
      ReadLimit(context, axes.value, {name, std::string(axes.key.text), 0, {}},
                out);
    }
  }
  return out;
}

class AuditReader {
 public:
  AuditReader(const YamlContext& context, const Target& target,
              Names collectives, Boundary boundary)
      : context_(context),
        target_(target),
        collectives_(collectives),
        boundary_(std::move(boundary)) {}

  std::optional<AuditInput> Read(const YamlNode& node) {
    const size_t before = context_.findings.errors();
    const auto fields = Fields::Read(context_, node, keys::kAudit);
    if (!fields) return std::nullopt;
    AuditInput out;
    out.program = PathOf(*fields, "program");
    out.locked = PathOf(*fields, "locked");
    if (const YamlNode* budget = fields->Find("budget")) {
      out.limits = ReadBudget(context_, collectives_, *budget);
    }
    if (fields->Find("program") == nullptr) {
      context_.Add(code::kSchema, node, "`audit` names no program",
                   "give the text of the compiled step: `program: "
                   "build/step.hlo.txt`");
    }
    CheckLocked(*fields, out);
    if (context_.findings.errors() > before) return std::nullopt;
    return out;
  }

 private:
  std::string PathOf(const Fields& fields, const std::string& key) {
    const YamlNode* node = fields.Find(key);
    if (node == nullptr) return {};
    const auto path = ReadText(context_, *node, "`" + key + "`", true);
    if (!path) return {};
    const std::string out = PathNextTo(target_.place.source->name(), *path);
    if (path->empty()) {
      context_.Add(code::kSchema, *node, "`" + key + "` is empty",
                   "name a file");
    } else if (!boundary_.Holds(out)) {
      context_.Add(code::kPath, *node,
                   "`" + key + "` leads out of the project's repository: `" +
                       *path + "`",
                   "move it into the repository, or give `--allow-outside`");
    }
    return out;
  }

  void CheckLocked(const Fields& fields, const AuditInput& audit) {
    namespace fs = std::filesystem;
    for (const std::string* other :
         {&audit.program, &target_.plan, &target_.step}) {
      if (audit.locked.empty() || other->empty() ||
          fs::path(audit.locked).lexically_normal() !=
              fs::path(*other).lexically_normal()) {
        continue;
      }
      context_.Add(code::kSchema, *fields.Find("locked"),
                   "`locked` is another file of the target",
                   "give the summary a file of its own");
      return;
    }
  }

  const YamlContext& context_;
  const Target& target_;
  Names collectives_;
  Boundary boundary_;
};

}  // namespace

std::optional<AuditInput> ReadTargetAudit(
    const Target& target, std::span<const std::string_view> collectives,
    bool allow_outside, Findings& findings) {
  const SourceRef source = target.place.source;
  // Most projects have no `audit` section and need not be parsed again.
  if (source == nullptr ||
      source->text().find("audit") == std::string_view::npos) {
    return std::nullopt;
  }
  // The findings of this second parse are ignored, because errors in the rest
  // of the project have already been reported.
  Findings read;
  const auto document = YamlDocument::Parse(source, read);
  if (!document) return std::nullopt;
  const YamlNode* targets = MemberOf(document->root(), "targets");
  const YamlNode* own =
      targets == nullptr ? nullptr : MemberOf(*targets, target.name);
  const YamlNode* node = own == nullptr ? nullptr : MemberOf(*own, "audit");
  if (node == nullptr) return std::nullopt;
  const YamlContext context{*document, findings};
  return AuditReader(context, target, collectives,
                     allow_outside ? Boundary() : Boundary::Of(source->name()))
      .Read(*node);
}

}  // namespace shardc
