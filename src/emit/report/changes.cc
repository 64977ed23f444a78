// Writes a table of the differences from a base plan. Parameters with the same
// change share a row. The row has a sign, the parameters, their specs before
// and after the change, the change in bytes per device, and how the data moves.
// The specs of attention's tensors are compared dimension by dimension, because
// one change, such as new batch axes, changes many of these specs. For example,
// 32 parameters are no longer sharded over fsdp:
//
//   ~ model.layers.*.o_proj.weight ×32  [fsdp, tp] → [null, tp]  +224 MiB
#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "comm/collective.h"
#include "emit/findings/formats.h"
#include "emit/report/page.h"
#include "source/wording.h"

namespace shardc::report {
namespace {

void Sign(Html& html, std::string_view sign, std::string_view word) {
  html.Raw("<tr><td class=sign>").Raw(sign).Raw("<span class=v> ").Raw(word);
  html.Raw("</span></td><th scope=row class=one>");
}

void Named(Html& html, const NamedGroup& group) {
  html.Raw("<span class=n>").Name(group.shown).Raw("</span>");
  if (group.names.size() > 1) {
    html.Raw(" <span class=q>×");
    html.Count(static_cast<int64_t>(group.names.size())).Raw("</span>");
  }
}

void WriteSpecChange(Page& page, const SpecChange& change) {
  Html& html = page.html;
  Sign(html, "~", "changed");
  Named(html, change);
  if (change.modes.size() < page.plan().table().classes.modes.size()) {
    html.Raw(" <span class=tag>");
    page.Modes(change.modes);
    html.Raw("</span>");
  }
  html.Raw("</th><td>");
  page.SpecOf(change.before);
  html.Text(InPartsText(change.parts_before)).Raw("</td><td>");
  page.SpecOf(change.after);
  html.Text(InPartsText(change.parts_after));
  html.Raw("</td><td class=r>");
  if (change.held_before && change.held_after) {
    // Each parameter of the group may be held only by the devices at one
    // coordinate of an axis, as one expert is. So a device's bytes are not
    // those of one parameter times the number of parameters.
    if (change.group_before && change.group_after) {
      const int64_t all = *change.group_after - *change.group_before;
      if (all == 0) {
        html.Raw("±0");
      } else {
        html.Raw(all > 0 ? "<b class=e>+" : "<b class=ok>−");
        html.Bytes(all > 0 ? all : -all).Raw("</b>");
      }
    }
    html.Raw("<br><span class=q>").Bytes(*change.held_before).Raw(" → ");
    html.Bytes(*change.held_after).Raw("</span>");
  }
  html.Raw("</td><td>");
  if (change.move) {
    html.Text(CollectiveName(change.move->kind)).Raw(" ");
    page.Axes(change.move->axes);
  }
  const std::string placed = PlacementChangeText(change);
  if (!placed.empty()) html.Raw("placed ").Text(placed);
  html.Raw("</td></tr>\n");
}

void WritePlain(Page& page, std::string_view sign, std::string_view word,
                const NamedGroup& group) {
  Sign(page.html, sign, word);
  Named(page.html, group);
  page.html.Raw("</th><td></td><td></td><td></td><td></td></tr>\n");
}

void WriteTyped(Page& page, const TypeChange& change) {
  Html& html = page.html;
  const auto type = [&](const TensorType& of) {
    html.Raw("<td class=n>");
    html.Raw(of.shape ? ShapeText(*of.shape) : "?").Raw(" ");
    html.Raw(of.dtype ? DtypeName(*of.dtype) : "?").Raw("</td>");
  };
  Sign(html, "~", "of another type");
  Named(html, change);
  html.Raw("</th>");
  type(change.before);
  type(change.type);
  html.Raw("<td></td><td></td></tr>\n");
}

void WriteRule(Page& page, const RuleChange& change) {
  Html& html = page.html;
  const auto rule = [&](const std::string& pattern) {
    if (pattern.empty()) {
      html.Raw("<td class=q>no rule");
    } else {
      html.Raw("<td><code>").Name(pattern).Raw("</code>");
    }
    html.Raw("</td>");
  };
  Sign(html, "~", "under another rule");
  Named(html, change);
  html.Raw("</th>");
  rule(change.before);
  rule(change.after);
  html.Raw("<td></td><td></td></tr>\n");
}

void WriteLayers(Page& page, const LayerMove& move) {
  Html& html = page.html;
  const auto stage = [&](int32_t number, const std::vector<int32_t>& ranks) {
    html.Raw("<td>stage ").Number(number).Raw(" on ");
    html.Text(RanksText(ranks)).Raw("</td>");
  };
  Sign(html, "~", "in another stage");
  html.Text(LayersText(move.layers)).Raw("</th>");
  stage(move.stage_before, move.ranks_before);
  stage(move.stage_after, move.ranks_after);
  html.Raw("<td></td><td></td></tr>\n");
}

// Returns the name of a dimension of an attention tensor. Bias and mask are
// [batch, heads, query length, KV length], and other tensors of rank 4 are
// [batch, length, heads, head dimension].
std::string DimName(std::string_view tensor, size_t rank, size_t dim) {
  constexpr std::string_view kNames[] = {"batch", "length", "heads", "width"};
  constexpr std::string_view kScores[] = {"batch", "heads", "length",
                                          "KV length"};
  const bool scores = tensor == "bias" || tensor == "mask";
  if (rank == 4 || dim < 1) {
    const size_t at = std::min<size_t>(dim, 3);
    return std::string(scores ? kScores[at] : kNames[at]);
  }
  return "dimension " + std::to_string(dim);
}

// A change of one dimension of attention's tensors or of other activations, for
// example of `batch` from [dp] to [dp, fsdp]. `tensors` has all tensors with
// this change.
struct DimChange {
  std::string_view owner;  // "attention" or "activations"
  std::vector<Mode> modes;
  std::string name;
  AxisGroup before, after;
  std::vector<std::string> tensors;
};

void AddDimChanges(std::string_view owner,
                   const std::vector<ActivationChange>& changes,
                   std::vector<DimChange>& out) {
  for (const ActivationChange& change : changes) {
    const size_t rank = std::max(change.before.size(), change.after.size());
    Spec before = change.before, after = change.after;
    before.resize(rank);
    after.resize(rank);
    for (size_t i = 0; i < rank; ++i) {
      if (before[i] == after[i]) continue;
      const std::string name = owner == "attention"
                                   ? DimName(change.tensor, rank, i)
                                   : "dimension " + std::to_string(i);
      const auto same =
          std::find_if(out.begin(), out.end(), [&](const DimChange& one) {
            return one.owner == owner && one.modes == change.modes &&
                   one.name == name && one.before == before[i] &&
                   one.after == after[i];
          });
      if (same == out.end()) {
        out.push_back(
            {owner, change.modes, name, before[i], after[i], {change.tensor}});
      } else {
        same->tensors.push_back(change.tensor);
      }
    }
  }
}

std::vector<DimChange> DimChanges(const PlanDifference& diff) {
  std::vector<DimChange> out;
  AddDimChanges("attention", diff.attention, out);
  AddDimChanges("activations", diff.activations, out);
  return out;
}

void WriteDim(Page& page, const DimChange& change) {
  Html& html = page.html;
  Sign(html, "~", "changed");
  html.Raw("<span class=q>").Text(change.owner).Raw(":</span> ");
  html.Text(change.name).Raw(" of ");
  if (change.tensors.size() > 4) {
    html.Count(static_cast<int64_t>(change.tensors.size())).Raw(" tensors");
  } else {
    for (size_t i = 0; i < change.tensors.size(); ++i) {
      html.Raw(i > 0 ? ", " : "").Raw("<code>").Name(change.tensors[i]);
      html.Raw("</code>");
    }
  }
  html.Raw(" <span class=tag>");
  page.Modes(change.modes);
  html.Raw("</span></th><td><code>");
  page.Group(change.before);
  html.Raw("</code></td><td><code>");
  page.Group(change.after);
  html.Raw("</code></td><td></td><td></td></tr>\n");
}

int64_t GroupCount(const auto& groups) {
  int64_t out = 0;
  for (const auto& group : groups) {
    out += static_cast<int64_t>(group.names.size());
  }
  return out;
}

void WriteTotals(Page& page) {
  Html& html = page.html;
  const PlanDifference& diff = *page.in.base->diff;
  const int64_t shards = ShardChanges(diff);
  html.Raw("<p><b>" + Counted(GroupCount(diff.specs) - shards, "change") +
           "</b> of parameters’ specs, ");
  if (shards > 0) html.Count(shards).Raw(" of shards alone, ");
  html.Count(GroupCount(diff.reshaped)).Raw(" of another type, ");
  html.Count(GroupCount(diff.added))
      .Raw(" added, ")
      .Count(GroupCount(diff.removed));
  html.Raw(" removed, ").Count(GroupCount(diff.rules));
  html.Raw(" under another rule");
  int64_t layers = 0;
  for (const LayerMove& move : diff.layers) layers += move.layers.count();
  if (layers > 0) {
    html.Raw(", " + Counted(layers, "layer") + " in another stage");
  }
  html.Raw(". A device’s parameters:");
  for (const HeldChange& held : diff.held) {
    if (!held.before || !held.after) continue;
    const int64_t was = *held.before, now = *held.after;
    html.Raw("<br><span class=q>");
    page.Modes(held.modes);
    html.Raw("</span> ").Bytes(was).Raw(" → ").Bytes(now);
    if (was == now) continue;
    html.Raw(now > was ? " <b class=e>+" : " <b class=ok>−");
    html.Bytes(now > was ? now - was : was - now).Raw("</b>");
  }
  html.Raw("</p>\n");
}

int64_t SizeIn(const Mesh& mesh, std::string_view axis) {
  const auto at = mesh.Find(axis);
  return at ? mesh.axes[*at].size : 1;
}

void WriteAxisRow(Page& page, std::string_view axis, const Mesh& before,
                  const Mesh& after) {
  Html& html = page.html;
  const int64_t was = SizeIn(before, axis), is = SizeIn(after, axis);
  html.Raw("<tr><th scope=row>");
  page.Axis(axis);
  html.Raw("</th><td class=r>").Count(was).Raw("</td><td class=r>").Count(is);
  html.Raw(was == is  ? "</td><td class=q>unchanged</td></tr>"
           : is > was ? "</td><td>↑ more parts</td></tr>"
                      : "</td><td>↓ fewer parts</td></tr>");
}

// Returns the number of parameters that keep their specs in all modes while
// their shards change, for example because a mesh axis gets another size. A
// parameter whose spec changes differently in several modes is in several
// groups of changes, so the names are collected in sets.
int64_t KeptSpecs(const PlanDifference& diff) {
  std::set<std::string_view> kept;
  for (const SpecChange& one : diff.specs) {
    if (one.before == one.after)
      kept.insert(one.names.begin(), one.names.end());
  }
  for (const SpecChange& one : diff.specs) {
    if (one.before == one.after) continue;
    for (const std::string& name : one.names) kept.erase(name);
  }
  return static_cast<int64_t>(kept.size());
}

// Writes the effects of another mesh: the axes, the devices, and the number of
// parameters that keep their spec but have other shards.
void WriteMeshChange(Page& page) {
  const PlanDifference& diff = *page.in.base->diff;
  if (!diff.other_mesh) return;
  const Mesh &before = diff.mesh_before, &after = diff.mesh_after;
  Html& html = page.html;
  html.Raw("<h3>The mesh changes</h3>\n<p><code>").Text(MeshText(before));
  html.Raw("</code> → <code>").Text(MeshText(after)).Raw("</code></p>\n");
  BeginTable(html, "Axes before and after", "narrow",
             {{"Axis"}, {"Before", true}, {"After", true}, {"Change"}});
  for (const MeshAxis& axis : after.axes) {
    WriteAxisRow(page, axis.name, before, after);
  }
  for (const MeshAxis& axis : before.axes) {
    if (!after.Find(axis.name)) WriteAxisRow(page, axis.name, before, after);
  }
  html.Raw("<tr><th scope=row>devices</th><td class=r>").Count(before.devices);
  html.Raw("</td><td class=r>").Count(after.devices);
  html.Raw("</td><td></td></tr>");
  EndTable(html);
  const int64_t kept = KeptSpecs(diff);
  if (kept > 0) {
    html.Raw("<p>" + Counted(kept, "parameter") +
             (kept == 1 ? " keeps its spec, but its shards"
                        : " keep their specs, but their shards") +
             " change with the mesh.</p>\n");
  }
}

// Writes the changed members of the plan that the table of changes does not
// contain.
void WriteFields(Page& page) {
  Html& html = page.html;
  for (const FieldChange& field : page.in.base->diff->fields) {
    if (field.detailed) continue;
    html.Raw("<p class=q>").Message(field.message).Raw("</p>\n");
  }
}

}  // namespace

int64_t ShardChanges(const PlanDifference& diff) {
  int64_t out = 0;
  for (const SpecChange& one : diff.specs) {
    if (one.before == one.after) out += static_cast<int64_t>(one.names.size());
  }
  return out;
}

void WriteChanges(Page& page) {
  if (!page.in.base) return;
  Html& html = page.html;
  const PlanDifference& diff = *page.in.base->diff;
  page.Begin("changes", "Changes");
  html.Raw("<p class=q>From the base plan <code>").Name(page.in.base->name);
  html.Raw("</code> to this one, like parameters folded together.</p>\n");
  if (diff.empty()) {
    html.Raw("<p>Nothing changes.</p>\n");
    page.End();
    return;
  }
  WriteTotals(page);
  WriteMeshChange(page);
  const auto begin = [&] {
    BeginTable(html, "Changes", "ch",
               {{},
                {"Tensor"},
                {"Before"},
                {"After"},
                {"Per device", true},
                {"Move"}});
  };
  begin();
  // The rows after the first kOpen are in a table that is folded.
  constexpr size_t kOpen = 8;
  size_t written = 0, more = 0;
  const auto each = [&](const auto& entries, const auto& write) {
    for (const auto& entry : entries) {
      if (written == page.limits.changes) {
        ++more;
        continue;
      }
      if (written == kOpen) {
        EndTable(html);
        html.Raw("<details><summary>More changes</summary>\n");
        begin();
      }
      ++written;
      write(entry);
    }
  };
  each(diff.layers, [&](const LayerMove& one) { WriteLayers(page, one); });
  each(diff.specs, [&](const SpecChange& one) { WriteSpecChange(page, one); });
  each(diff.reshaped, [&](const TypeChange& one) { WriteTyped(page, one); });
  each(diff.rules, [&](const RuleChange& one) { WriteRule(page, one); });
  each(diff.added,
       [&](const NamedGroup& one) { WritePlain(page, "+", "added", one); });
  each(diff.removed,
       [&](const NamedGroup& one) { WritePlain(page, "−", "removed", one); });
  each(DimChanges(diff), [&](const DimChange& one) { WriteDim(page, one); });
  EndTable(html);
  if (written > kOpen) html.Raw("</details>\n");
  if (more > 0) {
    html.Raw("<p class=q>and ").Count(static_cast<int64_t>(more));
    html.Raw(" more: <code>shardc diff</code> has them all.</p>\n");
  }
  WriteFields(page);
  page.End();
}

// Writes findings as cards. Errors and warnings come first and are unfolded.
// Notes are folded if there are more than two. The level is shown by a sign, a
// word and a colour, for readers who cannot see one of these.

namespace {

// Returns `rules.yaml:14:12`, relative to the repository. For a file outside of
// the repository, only the file's name is returned, without its directory.
std::string PlaceText(const Page& page, const Finding& finding) {
  const Place& place = FilePlace(finding);
  if (place.source == nullptr) return finding.place.ToString();
  const std::string name = place.source->name();
  std::string path = page.in.repository.PathOf(name);
  if (path.starts_with('/')) path = std::string(AfterLast(path, '/'));
  std::string out = place.ToString();
  if (out.starts_with(name)) out.replace(0, name.size(), path);
  return out;
}

}  // namespace

void WriteFinding(Page& page, const Finding& finding) {
  struct Look {
    std::string_view card, ink, sign;
  };
  constexpr Look kLooks[] = {
      {"is-e", "e", "✕"}, {"is-wa", "wa", "▲"}, {"is-q", "q", "●"}};
  const Look& look = kLooks[static_cast<size_t>(finding.level)];
  Html& html = page.html;
  html.Raw("<div class=\"finding ").Raw(look.card).Raw("\"><div class=top>");
  html.Raw("<span><b class=").Raw(look.ink).Raw(">").Raw(look.sign).Raw(" ");
  html.Text(LevelName(finding.level)).Raw(" ").Text(finding.code->Id());
  html.Raw("</b> ").Text(finding.code->name).Raw("</span><code class=q>");
  html.Name(PlaceText(page, finding)).Raw("</code></div>\n<p>");
  html.Message(MessageText(finding)).Raw("</p>");
  if (!finding.help.empty()) {
    html.Raw("<p class=q>help: ").Message(finding.help).Raw("</p>");
  }
  html.Raw("</div>\n");
}

namespace {

// Writes the first findings, and folds the others.
void WriteCards(Page& page, std::span<const Finding* const> all, size_t open,
                std::string_view what) {
  const size_t shown = std::min(all.size(), page.limits.findings);
  for (size_t i = 0; i < std::min(open, shown); ++i)
    WriteFinding(page, *all[i]);
  if (shown <= open) return;
  page.html.Raw("<details><summary>");
  page.html.Raw(Counted(std::ssize(all) - static_cast<int64_t>(open), what));
  page.html.Raw("</summary>\n");
  for (size_t i = open; i < shown; ++i) WriteFinding(page, *all[i]);
  page.html.Raw("</details>\n");
}

// Writes the findings of one command: errors and warnings first, of which
// kOpen are open, then notes, which are folded if there are more than two.
void WriteSorted(Page& page, std::span<const Finding> findings,
                 std::string_view command) {
  constexpr size_t kOpen = 6, kOpenNotes = 2;
  std::vector<const Finding*> loud, notes;
  for (const Finding& finding : findings) {
    (finding.level == Level::kNote ? notes : loud).push_back(&finding);
  }
  std::ranges::stable_sort(loud, {}, &Finding::level);
  WriteCards(page, loud, kOpen, "more finding");
  WriteCards(page, notes, notes.size() > kOpenNotes ? 0 : kOpenNotes, "note");
  const size_t most = page.limits.findings;
  const size_t left = (loud.size() > most ? loud.size() - most : 0) +
                      (notes.size() > most ? notes.size() - most : 0);
  if (left > 0) {
    page.html.Raw("<p class=q>and " +
                  Counted(static_cast<int64_t>(left), "more finding"));
    page.html.Raw(": run <code>").Raw(command);
    page.html.Raw("</code> for the full list.</p>\n");
  }
}

}  // namespace

void WriteFindings(Page& page) {
  const bool of_program = page.in.program && !page.in.program->findings.empty();
  const bool of_plan = page.in.checked && !page.in.findings.empty();
  if (!of_plan && !of_program) return;
  page.Begin("findings", "Findings");
  if (of_plan) {
    WriteSorted(page, page.in.findings, "shardc check --notes");
  }
  if (of_program) {
    page.html.Raw("<h3>In the compiled program</h3>\n");
    WriteSorted(page, page.in.program->findings, "shardc audit");
  }
  page.End();
}

}  // namespace shardc::report
