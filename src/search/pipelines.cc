// Finds the fastest pipelines. Each pipeline is drafted first with a lower
// bound of its time (pipeline_drafts.cc). Those with the shortest expected
// times are then evaluated as `cost --stages` does. An evaluation takes a
// hundred times as long as a bound.
#include "search/pipelines.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cost/pipeline.h"
#include "cost/time.h"
#include "plan/mesh_purposes.h"
#include "plan/planned_stages.h"
#include "search/front.h"
#include "search/request.h"
#include "search/search.h"
#include "source/list.h"
#include "source/size.h"

namespace shardc::search {
namespace {

// If a model has more parameter tensors than this, no pipelines are evaluated.
constexpr int64_t kMostParameters = 5000;
// The largest numbers of pipelines that are evaluated in one pass:
//   kMostMeasured    schedules of published runs: a pass without and a pass
//                    with sharded sequences
//   kMostUnmeasured  each other schedule, if the request allows unmeasured
//                    choices: a pass with the mesh and settings of the fastest
//                    pipeline, then a pass with all meshes and settings
//   kMostRanks       for each number of ranks, the pipeline with the shortest
//                    expected time, if it is not evaluated yet
//   kMostPolicies    the same for each pair of a number of ranks and a
//                    rematerialisation policy
constexpr int64_t kMostMeasured = 48, kMostUnmeasured = 24;
constexpr int64_t kMostRanks = 8, kMostPolicies = 24;

class Finder {
 public:
  Finder(const Request& request, const SettingsGrid& grid, RuleOptions& options,
         Base base, const Deadline& deadline)
      : request_(request),
        grid_(grid),
        options_(options),
        deadline_(deadline),
        base_(base) {}

  Pipelines Find() {
    out_.why_not = WhyNot();
    if (!out_.why_not.empty()) return std::move(out_);
    const auto& axes = options_.axes(base_);
    axis_ = !IsAmong("pp", axes) ? "pp" : "stages";
    const PipelineDrafts drafted =
        DraftPipelines(request_, grid_, options_, base_, axis_, deadline_);
    drafts_ = &drafted;
    out_.finished = drafted.finished;
    out_.bounded = static_cast<int64_t>(drafted.all.size());
    const std::span<const ScheduleBound> schedules = ScheduleBounds();
    for (const bool divided : {false, true}) {
      EvaluateSome(kMostMeasured, [&](const PipelineDraft& one) {
        return schedules[one.schedule].measured && Divides(one) == divided;
      });
    }
    for (uint32_t i = 0; request_.unmeasured && i < schedules.size(); ++i) {
      if (schedules[i].measured) continue;
      // The mesh and settings of the fastest pipeline so far are evaluated with
      // this schedule first.
      if (const PipelineDraft* const like = fastest_) {
        EvaluateSome(kMostUnmeasured, [&](const PipelineDraft& one) {
          return one.schedule == i && one.mesh == like->mesh &&
                 one.setting == like->setting && one.chunks == like->chunks;
        });
      }
      EvaluateSome(kMostUnmeasured,
                   [&](const PipelineDraft& one) { return one.schedule == i; });
    }
    EvaluateOthers(kMostRanks, [&](const PipelineDraft& one) {
      return drafts_->RanksOf(one);
    });
    EvaluateOthers(kMostPolicies,
                   [&](const PipelineDraft& one) { return PolicyOf(one); });
    if (fastest_ != nullptr)
      TakeDivision(Evaluate(*fastest_, Division::kTimes));
    if (!out_.finished && drafted.finished) out_.left_bound = LeftBound();
    // If none of them can be divided, memory is not why no pipeline fits.
    if (refused_ > 0 && refused_ == out_.evaluated) {
      out_.why_not = std::move(why_refused_);
    }
    auto& fitting = out_.fitting;
    std::stable_sort(fitting.begin(), fitting.end(),
                     [](const Pipeline& a, const Pipeline& b) {
                       return a.seconds < b.seconds;
                     });
    return std::move(out_);
  }

 private:
  // Evaluates at most `most` pipelines, in order of their expected times: those
  // that `wanted` selects and whose bounds are below the fastest time.
  template <typename Wanted>
  void EvaluateSome(int64_t most, const Wanted& wanted) {
    most += out_.evaluated;
    for (const PipelineDraft& one : drafts_->all) {
      const bool slower = out_.fastest && one.bound >= out_.fastest->seconds;
      if (slower || !wanted(one)) continue;
      if (IsEnough(most)) break;
      EvaluateOne(one);
    }
  }

  // Evaluates at most `most` pipelines whose bounds are close to the fastest
  // time. Of the pipelines with equal keys, only the first one is considered.
  // It is skipped if it has been evaluated already.
  template <typename KeyOf>
  void EvaluateOthers(int64_t most, const KeyOf& key) {
    most += out_.evaluated;
    std::set<decltype(key(drafts_->all.front()))> seen;
    for (const PipelineDraft& one : drafts_->all) {
      const bool close =
          out_.fastest && one.bound < out_.fastest->seconds * kFrontWindow;
      if (!close || seen.contains(key(one))) continue;
      seen.insert(key(one));
      if (evaluated_.contains(&one)) continue;
      if (IsEnough(most)) break;
      EvaluateOne(one);
    }
  }

  // Returns whether the pipeline's mesh shards the sequence.
  bool Divides(const PipelineDraft& one) const {
    return drafts_->meshes[one.mesh].sizes.sequence > 1;
  }

  // A number of ranks, and the index of a rematerialisation policy.
  using RanksPolicy = std::pair<int64_t, size_t>;
  RanksPolicy PolicyOf(const PipelineDraft& one) const {
    return {drafts_->RanksOf(one), grid_.RematOf(one.setting)};
  }

  void EvaluateOne(const PipelineDraft& one) {
    evaluated_.insert(&one);
    if (Take(Evaluate(one, Division::kEven))) fastest_ = &one;
  }

  // Sets the division of the layers that published runs have: the layers of
  // each stage if both ends count. `further` layers behind the last one predict
  // further tokens.
  static void DivideAsPublished(int64_t layers, int64_t further, int64_t stages,
                                Pipeline& out) {
    const int64_t each = (layers + 2 + further) / stages;
    if (layers % stages == 0 || each * stages != layers + 2 + further ||
        each < 1 + further) {
      return;
    }
    out.division = Division::kEnds;
    out.layers.assign(AsIndex(stages), each);
    --out.layers.front();
    out.layers.back() -= 1 + further;
  }

  // Returns true if `most` pipelines have been evaluated or the deadline has
  // passed. Otherwise increases the number of evaluated pipelines and returns
  // false.
  bool IsEnough(int64_t most) {
    if (out_.evaluated >= most || IsOver()) return true;
    ++out_.evaluated;
    return false;
  }

  // Takes the fastest pipeline with another division of its layers.
  void TakeDivision(std::optional<Pipeline> one) {
    if (request_.unmeasured) {
      Take(std::move(one));
    } else if (one && one->seconds < out_.fastest->seconds) {
      out_.by_times = std::move(one);
    }
  }

  // Adds a pipeline that fits. Returns whether it is the fastest one so far
  // that may win.
  bool Take(std::optional<Pipeline> one) {
    if (!one) return false;
    const bool first = (request_.unmeasured || WhyUnmeasured(*one).empty()) &&
                       (!out_.fastest || one->seconds < out_.fastest->seconds);
    if (first) out_.fastest = one;
    out_.fitting.push_back(std::move(*one));
    return first;
  }

  // Returns the least bound of the pipelines that were not evaluated; nullopt
  // if all were.
  std::optional<double> LeftBound() const {
    std::optional<double> out;
    for (const PipelineDraft& one : drafts_->all) {
      if (evaluated_.contains(&one)) continue;
      out = std::min(out.value_or(one.bound), one.bound);
    }
    return out;
  }

  bool IsOver() {
    out_.finished = out_.finished && !deadline_.IsOver();
    return !out_.finished;
  }

  // Returns the reason why no pipeline is tried; empty if pipelines are tried.
  std::string WhyNot() const {
    if (request_.mesh) return "the mesh is given";
    if (!request_.model || !request_.model->layers) {
      return "the number of layers is not known";
    }
    if (request_.manifest.tensors.size() > kMostParameters) {
      return "the model has more than 5,000 parameters";
    }
    return NoTorusRun(*request_.settings.profile, "a pipeline");
  }

  // Returns the complete model compiled for the mesh of a pipeline; null if it
  // does not compile.
  const Compiled* CompiledFor(const PipelineDraft& draft) {
    const auto [at, fresh] = compiled_.try_emplace(draft.mesh);
    if (fresh) {
      const Compiled& all = options_[draft.option].evaluator->all();
      Mesh own = drafts_->meshes[draft.mesh].mesh;
      own.device = request_.device;
      RuleSet rules = all.rules;
      ChoosePackAxes(rules, &*request_.model, own);
      Findings unreported;
      at->second = CompileOn(all, std::move(own), std::move(rules), unreported);
    }
    return at->second.get();
  }

  // Evaluates a pipeline. Returns nullopt if it does not compile or does not
  // fit.
  std::optional<Pipeline> Evaluate(const PipelineDraft& draft,
                                   Division division) {
    const Compiled* const compiled = CompiledFor(draft);
    if (compiled == nullptr) return std::nullopt;
    const RuleOption& option = options_[draft.option];
    Pipeline out;
    out.mesh = drafts_->meshes[draft.mesh].mesh;
    out.sizes = drafts_->meshes[draft.mesh].sizes;
    out.axis = axis_;
    out.schedule = ScheduleBounds()[draft.schedule].name;
    out.virtual_stages = draft.chunks;
    out.settings = grid_[draft.setting];
    // A rank without virtual stages has no other micro-batch.
    if (draft.chunks < 2) out.settings.overlap_experts = false;
    out.base = option.base;
    out.changes = option.changes;
    out.rules = option.name;
    out.file = option.file;
    out.division = division;
    const cost::CostInputs work =
        cost::MakeCostInputs(*compiled, request_.model, Mode::kTrain);
    if (division == Division::kEven) {
      DivideAsPublished(request_.model->layers.value_or(0),
                        work.next_token_layers, out.Ranks() * draft.chunks,
                        out);
    }
    Findings unreported;
    auto request = DeclaredRequest(
        DeclarationOf(out), compiled->mesh,
        static_cast<int32_t>(out.settings.microbatches), unreported);
    if (!request) return std::nullopt;
    if (division == Division::kTimes) {
      request->balance = StageBalance::kSearched;
    }
    const auto planned =
        DivideIntoStages(*compiled, &*request_.model, *request, unreported);
    if (!planned) {
      NoteRefusal(unreported);
      return std::nullopt;
    }
    const auto cost = cost::PipelineCostOf(*compiled, work, out.settings,
                                           *planned, true, unreported);
    if (!cost || !TakeBytes(*cost, out)) return std::nullopt;
    out.layers.clear();
    for (const cost::StageCost& stage : cost->stages) {
      out.layers.push_back(stage.LayersOf(cost->layers).count());
    }
    out.bound = draft.bound;
    out.seconds = cost->Step();
    out.least = cost->least;
    out.most = cost->most;
    const DeviceProfile* const profile = out.settings.profile;
    const double flops = cost::ModelFlopsOf(work, out.settings).value_or(0);
    out.model_flops_share =
        flops * cost::Real(profile->devices_per_chip) /
        (cost::Real(work.mesh.devices) * cost::Real(out.Ranks()) * out.seconds *
         profile->bf16_rate);
    out.bubble = cost->timeline.StepBubble();
    out.after = cost->after;
    out.gathers_once = cost->settings.gathers_once;
    return out;
  }

  // Takes the reason why the model cannot be divided into stages. Each number
  // of stages may have another reason; the first one is kept.
  void NoteRefusal(const Findings& refused) {
    ++refused_;
    if (!why_refused_.empty()) return;
    for (const Finding& finding : refused.all()) {
      why_refused_ = finding.message + " (" + finding.code->Id() + ")";
      return;
    }
  }

  // Sets the bytes of the fullest rank. Returns whether every rank fits.
  static bool TakeBytes(const cost::PipelineCost& cost, Pipeline& out) {
    const auto tensors = cost.Fullest();
    const cost::RankCost* const fullest = cost.FullestRank();
    if (!tensors || fullest == nullptr || !cost.Fits().value_or(false)) {
      return false;
    }
    out.bytes = *tensors;
    out.taken = fullest->taken->expected;
    for (const cost::RankCost& rank : cost.ranks) {
      out.most_taken = std::max(out.most_taken, rank.taken->most);
    }
    return true;
  }

  const Request& request_;
  const SettingsGrid& grid_;
  RuleOptions& options_;
  const Deadline& deadline_;
  const Base base_;
  std::string axis_;
  const PipelineDrafts* drafts_ = nullptr;
  const PipelineDraft* fastest_ = nullptr;
  std::set<const PipelineDraft*> evaluated_;
  // How many evaluated pipelines cannot be divided into stages, and why.
  int64_t refused_ = 0;
  std::string why_refused_;
  // The complete model compiled for a mesh, keyed by PipelineDraft::mesh.
  // Drafts with the same value of this index have the same rules, so the key
  // does not include the rules.
  std::map<uint32_t, std::unique_ptr<const Compiled>> compiled_;
  Pipelines out_;
};

}  // namespace

bool IsMeasuredSchedule(std::string_view schedule) {
  const auto schedules = ScheduleBounds();
  return std::any_of(schedules.begin(), schedules.end(),
                     [&](const ScheduleBound& one) {
                       return one.measured && one.name == schedule;
                     });
}

std::string WhyUnmeasured(const Pipeline& one) {
  if (!IsMeasuredSchedule(one.schedule)) {
    return "no measured run has the schedule";
  }
  if (!one.gathers_once && (one.sizes.sharded > 1 || one.settings.zero > 2)) {
    return "no measured run gathers weights for each micro-batch";
  }
  if (one.division == Division::kTimes) {
    return "no measured run divides its layers by the times of the stages";
  }
  return "";
}

StageDeclaration DeclarationOf(const Pipeline& one) {
  StageDeclaration out;
  out.axis = one.axis;
  out.schedule = one.schedule;
  out.virtual_stages = one.virtual_stages;
  out.assign =
      one.layers.empty() ? StageAssignment::kEven : StageAssignment::kListed;
  out.listed = one.layers;
  return out;
}

Pipelines FindPipelines(const Request& request, const SettingsGrid& grid,
                        RuleOptions& options, const Deadline& deadline) {
  if (options.bases().empty()) {
    Pipelines none;
    none.why_not = "the rules cannot be read";
    return none;
  }
  const Base base = options.bases().front();
  return Finder(request, grid, options, base, deadline).Find();
}

// Adds pipelines to the result of a search, and compares them with the winner.
// The time of a pipeline has other parts than that of a sharding without
// stages: the bubble, the gradients and the update after the last task, and the
// time that a rank computes and sends for its stages. Each part is compared
// with the corresponding parts of the winner. For example, a pipeline of 8
// ranks has a bubble, shorter updates, and less time for the rest of the step:
//
//   pp 1 -> 8: bubble +624 ms, stage updates -50 ms, stages -2.1 s

namespace {

double SecondsOf(const Sharding& one, std::string_view part) {
  for (const cost::TimePart& own : one.report.expected->parts) {
    if (own.name == part) return own.seconds;
  }
  return 0;
}

std::vector<cost::TimePart> PartsOf(const Pipeline& one) {
  const double bubble = one.bubble * one.seconds;
  return {{"bubble", bubble},
          {"stage_updates", one.after},
          {"stages", one.seconds - bubble - one.after}};
}

// Returns, for each part of the time, how many seconds longer it is in a
// pipeline than in the winner. The sum is the difference of the two times.
std::vector<cost::TimePart> PartsBeyond(const Sharding& winner,
                                        const Pipeline& one) {
  std::vector<cost::TimePart> out = PartsOf(one);
  const double updates =
      SecondsOf(winner, "gradients") + SecondsOf(winner, "optimizer");
  out[1].seconds -= updates;
  out[2].seconds -= winner.Seconds() - updates;
  return out;
}

Sharding ShardingOf(const Pipeline& one, std::optional<int64_t> capacity) {
  Sharding out;
  out.base = one.base;
  out.mesh = one.mesh;
  out.rules = one.rules;
  out.file = one.file;
  out.unmeasured = WhyUnmeasured(one);
  out.stages = static_cast<int64_t>(one.layers.size());
  out.schedule = one.schedule;
  if (one.virtual_stages > 1) {
    out.schedule +=
        " with " + std::to_string(one.virtual_stages) + " stages a rank";
  }
  out.report.mesh = one.mesh;
  out.report.settings = one.settings;
  out.report.memory.capacity = capacity;
  auto& taken = out.report.memory.taken.emplace(cost::TakenBytes{});
  taken.least = one.bytes;
  taken.expected = one.taken;
  taken.most = one.most_taken;
  auto& time = out.report.expected.emplace(cost::ExpectedTime{});
  time.seconds = one.seconds;
  time.least = one.least;
  time.most = one.most;
  time.model_flops_share = one.model_flops_share;
  time.tokens_per_second = cost::Real(one.settings.batch.value_or(0)) *
                           cost::Real(one.settings.length.value_or(0)) /
                           (cost::Real(one.mesh.devices) * one.seconds);
  time.measured = one.settings.profile->efficiency.runs > 0;
  time.parts = PartsOf(one);
  return out;
}

class Placer {
 public:
  explicit Placer(Found& found)
      : found_(found),
        capacity_(found.winner->report.memory.capacity),
        fastest_((found.fastest ? *found.fastest : *found.winner).Seconds()) {}

  void Place() {
    Front();
    Ties();
    Alternatives();
  }

 private:
  bool IsBeaten(const Pipeline& one) const {
    return std::any_of(
        found_.front.begin(), found_.front.end(), [&](const Sharding& other) {
          return other.Seconds() <= one.seconds && other.Bytes() <= one.taken;
        });
  }

  void Front() {
    struct Entry {
      Sharding one;
      bool shown = false, knee = false;
    };
    std::vector<Point> points;
    std::vector<Entry> entries;
    for (const Pipeline& one : found_.pipelines.fitting) {
      if (one.seconds > fastest_ * kFrontWindow || IsBeaten(one)) continue;
      if (!points.empty() && one.taken >= points.back().bytes) continue;
      points.push_back({0, 0, one.seconds, one.taken});
      entries.push_back({ShardingOf(one, capacity_)});
    }
    if (entries.empty()) return;
    for (const size_t i : Thinned(points, capacity_.value_or(0))) {
      entries[i].shown = true;
    }
    for (size_t i = 0; i < found_.front.size(); ++i) {
      entries.push_back({std::move(found_.front[i])});
      entries.back().knee = i == found_.knee;
      entries.back().shown = IsAmong(i, found_.shown);
    }
    std::stable_sort(entries.begin(), entries.end(),
                     [](const Entry& a, const Entry& b) {
                       return a.one.Seconds() < b.one.Seconds();
                     });
    found_.front.clear();
    found_.shown.clear();
    found_.knee = entries.size();
    for (size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].shown) found_.shown.push_back(i);
      if (entries[i].knee) found_.knee = i;
      found_.front.push_back(std::move(entries[i].one));
    }
  }

  void Ties() {
    std::map<std::string, bool> seen;
    for (const Pipeline& one : found_.pipelines.fitting) {
      const bool ties =
          VerdictOf(one.seconds / fastest_, kTieOther) == Verdict::kTie;
      const std::string kind =
          KindOf(one.Ranks(), one.sizes, one.settings.zero);
      if (!ties || !seen.try_emplace(kind, true).second) continue;
      found_.ties.push_back({kind, ShardingOf(one, capacity_)});
    }
    std::stable_sort(found_.ties.begin(), found_.ties.end(),
                     [](const Tie& a, const Tie& b) {
                       return a.best.Seconds() < b.best.Seconds();
                     });
  }

  void Alternatives() {
    // The fastest fitting pipeline for each number of ranks, keyed by this
    // number.
    std::map<int64_t, const Pipeline*> best;
    for (const Pipeline& one : found_.pipelines.fitting) {
      best.try_emplace(one.Ranks(), &one);
    }
    const double seconds = found_.winner->Seconds();
    for (const auto& [ranks, one] : best) {
      WhyNot& out = found_.why_not.emplace_back();
      out.changes = {one->axis + " 1 -> " + std::to_string(ranks)};
      out.best = ShardingOf(*one, capacity_);
      out.verdict = VerdictOf(one->seconds / seconds, kTieOther);
      out.parts = PartsBeyond(*found_.winner, *one);
      out.because = DifferenceText(out.parts);
      if (!out.best->unmeasured.empty()) {
        out.because += "; excluded: " + out.best->unmeasured;
      }
    }
  }

  Found& found_;
  const std::optional<int64_t> capacity_;
  const double fastest_;  // seconds of the fastest sharding without stages
};

}  // namespace

void PlacePipelines(Found& found, const Request& request) {
  if (found.winner) Placer(found).Place();
  const auto& fastest = found.pipelines.fastest;
  if (!fastest) return;
  const bool wins = !found.winner || found.may_fit ||
                    VerdictOf(fastest->seconds / found.winner->Seconds(),
                              kTieOther) == Verdict::kFaster;
  if (!wins) return;
  found.may_fit = false;
  found.without_stages = std::move(found.winner);
  found.winner =
      ShardingOf(*fastest, cost::CapacityOf(request.device, request.settings));
  cost::ExpectedTime& time = *found.winner->report.expected;
  time.has_experts = request.model && request.model->experts;
  time.calibrated = time.measured && !time.has_experts;
}

}  // namespace shardc::search
