// Searches for the fastest sharding. Enumerates the candidates, computes their
// bounds, and evaluates the candidates that the bounds do not exclude. Then
// describes the winner, the Pareto front and the ties. For example, this winner
// rematerialises all activations except the outputs of matmuls:
//
//   Llama 3 8B on 64 H100s  ->  fsdp:64, 1 micro-batch, dots kept: 1.7 s
//
// Unless the deadline passes, the winner is not slower than what `search --all`
// or `suggest` would choose for the same settings. The shardings of both
// commands are candidates. A point that ties with the fastest can win only if
// its time is at most that of the faster of these two shardings.
#include "search/search.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cost/unknown_roles.h"
#include "search/front.h"
#include "search/pricer.h"
#include "search/request.h"
#include "source/wording.h"

namespace shardc::search {
namespace {

constexpr double kNoTime = std::numeric_limits<double>::infinity();

// Returns filters for the settings that need no search: the settings of `search
// --all`, and those of `suggest`, which keep no activations. Returns no filter
// if the grid lacks their ZeRO stage or number of micro-batches.
std::vector<Filter> UsualFilters(const SettingsGrid& grid,
                                 const cost::Settings& usual) {
  std::vector<Filter> out;
  const auto& zeros = grid.zeros();
  const auto& micros = grid.micros();
  const auto zero = std::find(zeros.begin(), zeros.end(), usual.zero);
  const auto micro =
      std::find(micros.begin(), micros.end(), usual.microbatches);
  if (zero == zeros.end() || micro == micros.end()) return out;
  for (size_t i = 0; i < grid.remats().size(); ++i) {
    const step::Remat& remat = grid.remats()[i];
    if (remat.text != usual.remat.text && remat.keep != step::Keep::kNothing) {
      continue;
    }
    out.push_back({.zero = static_cast<size_t>(zero - zeros.begin()),
                   .remat = i,
                   .micro = static_cast<size_t>(micro - micros.begin())});
  }
  return out;
}

// Returns the indices of the usable candidates that `wanted` selects, sorted by
// their lower bound of time.
std::vector<uint32_t> OrderOf(const std::vector<Candidate>& candidates,
                              const std::vector<Bound>& bounds,
                              const std::function<bool(uint32_t)>& wanted) {
  std::vector<uint32_t> out;
  for (uint32_t i = 0; i < candidates.size(); ++i) {
    if (bounds[i].bytes >= 0 && bounds[i].Usable() && wanted(i)) {
      out.push_back(i);
    }
  }
  std::stable_sort(out.begin(), out.end(), [&](uint32_t a, uint32_t b) {
    return bounds[a].seconds < bounds[b].seconds;
  });
  return out;
}

// Returns the time of the fastest sharding that needs no search: unchanged
// rules, with the settings of `search --all` or of `suggest`. Returns infinity
// if this time exceeds `most_seconds`, and nullopt if the deadline passes
// first.
std::optional<double> UsualSeconds(const Pricer& pricer,
                                   const std::vector<Candidate>& candidates,
                                   const std::vector<Bound>& bounds,
                                   const RuleOptions& options,
                                   const cost::Settings& usual,
                                   double most_seconds,
                                   const Deadline& deadline) {
  double out = kNoTime;
  const auto order = OrderOf(candidates, bounds, [&](uint32_t i) {
    RuleChanges changes = options[candidates[i].option].changes;
    changes.batch_over_experts = false;
    return candidates[i].usual_order && changes == RuleChanges{};
  });
  for (Filter filter : UsualFilters(pricer.grid(), usual)) {
    for (const uint32_t i : order) {
      filter.most_seconds = std::min(most_seconds, out);
      if (bounds[i].seconds > filter.most_seconds) break;
      if (deadline.IsOver()) return std::nullopt;
      const auto one = pricer.BestOf(candidates[i], i, filter, 0);
      if (one) out = std::min(out, one->seconds);
    }
  }
  return out;
}

// Returns the fastest point whose mesh differs from the winner's. Sets
// `finished` to false if the deadline passes before this point is known.
std::optional<Point> RunnerUp(const Pricer& pricer,
                              const std::vector<Candidate>& candidates,
                              const std::vector<Bound>& bounds,
                              const Point& winner, const Deadline& deadline,
                              bool& finished) {
  std::optional<Point> out;
  const std::string mesh = MeshText(candidates[winner.candidate].mesh);
  Filter filter;
  for (const uint32_t i : OrderOf(candidates, bounds, [&](uint32_t i) {
         return MeshText(candidates[i].mesh) != mesh;
       })) {
    if (bounds[i].seconds > filter.most_seconds) break;
    if (deadline.IsOver()) {
      finished = false;
      break;
    }
    const auto one = pricer.BestOf(candidates[i], i, filter, 0);
    if (!one || (out && !Before(*one, *out))) continue;
    out = one;
    filter.most_seconds = one->seconds;
  }
  return out;
}

// Describes why no sharding fits: the candidate that needs the least memory,
// and the reasons why the first illegal mesh is refused. If the memory of every
// legal candidate is unknown, describes why the memory of the first legal
// candidate is unknown.
void DescribeMisfit(const SettingsGrid& grid, const RuleOptions& options,
                    const std::vector<Candidate>& candidates,
                    const Searched& searched, Found& out) {
  const Candidate *least = nullptr, *legal = nullptr;
  int64_t bytes = INT64_MAX;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Bound& bound = searched.bounds[i];
    if (!bound.reasons.empty()) {
      if (out.reasons.empty()) {
        out.reasons = bound.reasons;
        out.reasons.insert(out.reasons.begin(), MeshText(candidates[i].mesh));
      }
      continue;
    }
    if (bound.bytes >= 0 && legal == nullptr) legal = &candidates[i];
    if (bound.bytes >= 0 && bound.bytes < bytes) {
      least = &candidates[i];
      bytes = bound.bytes;
    }
  }
  if (least != nullptr) {
    out.least = LeastOf(grid, options, *least);
  } else if (legal != nullptr) {
    const Evaluator& evaluator = *options[legal->option].evaluator;
    const auto on = evaluator.On(legal->mesh);
    if (on) {
      for (const NotKnown& fact : evaluator.MemoryOf(*on, 0).unknown) {
        out.reasons.push_back(NotKnownText(fact));
      }
    }
    if (out.reasons.empty()) out.reasons = {"its bytes do not fit in 64 bits"};
    out.reasons.insert(out.reasons.begin(), MeshText(legal->mesh));
  }
}

// Returns the facts about the model that are not known. They do not depend on
// the mesh, so the first candidate that compiles shows them.
std::vector<NotKnown> MissingFacts(const std::vector<Candidate>& candidates,
                                   const RuleOptions& options) {
  for (const Candidate& one : candidates) {
    const auto on = options[one.option].evaluator->On(one.mesh);
    if (on) return on->work.not_known;
  }
  return {};
}

// Returns the facts without which the time of a step is not known, if that of
// none of the first legal candidates is known. Otherwise returns an empty list.
std::vector<NotKnown> UnknownTraffic(const RuleOptions& options,
                                     const std::vector<Candidate>& candidates,
                                     const Searched& searched) {
  constexpr int kTried = 8;
  std::vector<NotKnown> out;
  int tried = 0;
  for (size_t i = 0; i < candidates.size() && tried < kTried; ++i) {
    if (!searched.bounds[i].reasons.empty()) continue;
    Evaluator& evaluator = *options[candidates[i].option].evaluator;
    auto on = evaluator.On(candidates[i].mesh);
    if (!on) continue;
    ++tried;
    const cost::Communication moves = evaluator.MovesOf(*on, 0, 0);
    if (!cost::CanBeSettled(moves.unknown)) return {};
    AddNotKnown(moves.unknown, out);
  }
  return out;
}

}  // namespace

Found Search(const Request& request) {
  const Deadline deadline(request.seconds);
  const SettingsGrid grid(request);
  RuleOptions options(request, grid);
  const std::vector<Candidate> candidates = AllCandidates(request, options);
  ThreadPool threads(std::max(1, request.threads));
  Found out;
  out.not_known = MissingFacts(candidates, options);
  if (!out.not_known.empty()) return out;
  std::unique_ptr<Pricer> pricer;
  Searched searched;
  for (const bool may : {false, true}) {
    pricer = std::make_unique<Pricer>(request, grid, options, may);
    searched = BranchAndBound(request, *pricer, candidates, deadline, threads);
    out.may_fit = may && !searched.points.empty();
    if (!searched.points.empty()) break;
  }
  out.counts = {static_cast<int64_t>(candidates.size()),
                static_cast<int64_t>(grid.size()),
                static_cast<int64_t>(options.size()),
                searched.evaluated,
                searched.out_of_reach,
                searched.illegal,
                searched.too_large,
                searched.left,
                searched.left_bound};
  out.known = KnownChoices(request.model && request.model->experts);
  const std::vector<Point>& points = searched.points;
  if (points.empty()) {
    out.not_known = UnknownTraffic(options, candidates, searched);
    if (!out.not_known.empty()) return out;
    DescribeMisfit(grid, options, candidates, searched, out);
    out.pipelines = FindPipelines(request, grid, options, deadline);
    if (!out.pipelines.finished) out.unfinished.emplace_back("the pipelines");
    PlacePipelines(out, request);
    return out;
  }
  const auto describe = [&](const Point& one) {
    return Described(candidates[one.candidate], one.setting, options, 0);
  };
  const Point fastest = *std::min_element(points.begin(), points.end(), Before);
  const auto usual = UsualSeconds(*pricer, candidates, searched.bounds, options,
                                  request.settings,
                                  fastest.seconds * (1 + kTieOther), deadline);
  if (!usual) {
    out.unfinished.emplace_back(
        "the comparison with what `search --all` and `suggest` choose");
  }
  const Point winner =
      WinnerOf(points, candidates, grid, usual.value_or(kNoTime));
  out.winner = describe(winner);
  out.winner->file =
      options.FileFor(candidates[winner.candidate].option, out.winner->mesh);
  if (Before(fastest, winner)) out.fastest = describe(fastest);
  bool finished = true;
  if (const auto other = RunnerUp(*pricer, candidates, searched.bounds, winner,
                                  deadline, finished)) {
    out.runner_up = describe(*other);
  }
  if (!finished) out.unfinished.emplace_back("the runner-up");
  const std::vector<Point> front = FrontOf(points);
  for (const Point& one : front) out.front.push_back(describe(one));
  const int64_t capacity = out.winner->report.memory.capacity.value_or(0);
  out.shown = Thinned(front, capacity);
  out.knee = KneeOf(front, out.shown);
  for (const Point& one : TiesOf(points, candidates, grid)) {
    out.ties.push_back(
        {KindOf(candidates[one.candidate], grid[one.setting].zero),
         describe(one)});
  }
  Alternatives others = WhyNotOf(request, grid, options, *pricer, candidates,
                                 searched.bounds, winner, deadline, threads);
  out.why_not = std::move(others.all);
  out.pipelines = FindPipelines(request, grid, options, deadline);
  if (!out.pipelines.finished) out.unfinished.emplace_back("the pipelines");
  PlacePipelines(out, request);
  if (others.unfinished > 0) {
    out.unfinished.push_back(
        CountText(static_cast<int64_t>(others.unfinished)) + " of " +
        Counted(static_cast<int64_t>(others.tried), "alternative",
                "alternatives"));
  }
  return out;
}

// Explains why alternatives to the winner lose. In each alternative, one choice
// of the winner is changed. The best of all shardings with the changed choice
// is compared with the winner, part by part of the step's time. In this
// example, tp 2 makes the step 3.1 % longer, and the policy does not fit on any
// mesh:
//
//   tp 1 -> 2   +3.1 %  tensor collectives +52 ms; dp:2,fsdp:16,tp:2
//   remat everything_saveable  no mesh that it divides has room
//
// Alternatives with the same best sharding share a line. If an alternative with
// the winner's own settings would not fit in memory, the line states the bytes
// that it would need.

namespace {

// An alternative: one changed choice, and the candidates and settings that have
// it.
struct Pin {
  std::string change;
  std::vector<Candidate> candidates;
  Filter filter;
  // Whether the alternative changes the settings, not the mesh or the rules.
  bool of_settings = false;
  // Why the alternative is not evaluated; empty if it is evaluated.
  std::string excluded = {};
};

// The bounds that the search has already computed, indexed by candidate.
class KnownBounds {
 public:
  KnownBounds(const std::vector<Candidate>& candidates,
              const std::vector<Bound>& bounds) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (bounds[i].bytes >= 0) known_[KeyOf(candidates[i])] = &bounds[i];
    }
  }
  const Bound* Find(const Candidate& candidate) const {
    const auto at = known_.find(KeyOf(candidate));
    return at == known_.end() ? nullptr : at->second;
  }

 private:
  static std::string KeyOf(const Candidate& candidate) {
    return std::to_string(candidate.option) + " " + MeshText(candidate.mesh);
  }
  std::map<std::string, const Bound*> known_;
};

struct Outcome {
  // Why the first illegal candidate is illegal.
  std::vector<std::string> reasons;
  bool legal = false;
  // The fewest bytes that a legal candidate needs.
  int64_t least_bytes = INT64_MAX;
  std::optional<Point> best;
  size_t candidate = 0;
  bool unfinished = false;  // whether the deadline passed before the result
};

// Finds the best point among the candidates of `pin`. If `measured` is true,
// only candidates that a measured run supports are considered; otherwise only
// the candidates that no run supports. Replaces the point in `out` by a better
// one.
void TakeBest(const Pricer& pricer, const KnownBounds& known, const Pin& pin,
              bool measured, const Deadline& deadline, int worker,
              Outcome& out) {
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < pin.candidates.size(); ++i) {
    const Candidate& candidate = pin.candidates[i];
    if (candidate.unmeasured.empty() != measured) continue;
    if (deadline.IsOver()) {
      out.unfinished = true;
      return;
    }
    const Bound* const computed = known.Find(candidate);
    const Bound bound =
        computed ? *computed : pricer.BoundOf(candidate, worker);
    if (out.reasons.empty()) out.reasons = bound.reasons;
    if (bound.reasons.empty()) {
      out.legal = true;
      out.least_bytes = std::min(out.least_bytes, bound.bytes);
    }
    if (bound.Usable()) order.emplace_back(bound.seconds, i);
  }
  std::sort(order.begin(), order.end());
  Filter filter = pin.filter;
  for (const auto& [seconds, i] : order) {
    if (seconds > filter.most_seconds) break;
    if (deadline.IsOver()) {
      out.unfinished = true;
      return;
    }
    const auto one = pricer.BestOf(pin.candidates[i], static_cast<uint32_t>(i),
                                   filter, worker);
    if (!one || (out.best && !Before(*one, *out.best))) continue;
    out.best = one;
    filter.most_seconds = one->seconds;
  }
}

// Returns the best point of an alternative. Candidates that no measured run
// supports are considered only if no supported candidate fits.
Outcome Best(const Pricer& pricer, const KnownBounds& known, const Pin& pin,
             const Deadline& deadline, int worker) {
  Outcome out;
  if (!pin.excluded.empty()) return out;
  TakeBest(pricer, known, pin, true, deadline, worker, out);
  if (!out.best) TakeBest(pricer, known, pin, false, deadline, worker, out);
  if (out.best) out.candidate = out.best->candidate;
  return out;
}

class Pins {
 public:
  Pins(const Request& request, const SettingsGrid& grid, RuleOptions& options,
       const Candidate& winner, const Point& point)
      : request_(request),
        grid_(grid),
        options_(options),
        winner_(winner),
        point_(point),
        base_(options[winner.option].base),
        changes_(options[winner.option].changes) {}

  std::vector<Pin> Take() {
    if (!request_.mesh) Meshes();
    Settings();
    if (!request_.keep_rules) Rules();
    if (!request_.mesh) Orders();
    return std::move(out_);
  }

 private:
  void Add(std::string change, std::vector<Candidate> candidates,
           Filter filter = {}) {
    if (candidates.empty()) return;
    const bool of_settings = filter.zero || filter.remat || filter.micro;
    out_.push_back(
        {std::move(change), std::move(candidates), filter, of_settings});
  }

  // Returns candidates on the meshes whose axis sizes `wanted` selects. Each
  // candidate has the winner's base rules, either unchanged or with a change
  // that a measured run supports.
  std::vector<Candidate> OnMeshes(
      const std::function<bool(const AxisSizes&)>& wanted) {
    std::vector<Candidate> out;
    for (const Mesh& mesh : MeshesOf(request_, options_, base_)) {
      const auto plain = MakeCandidate(request_, options_, base_, mesh, {});
      if (!plain || !wanted(plain->sizes)) continue;
      for (const RuleChanges& changes : ChangesFor(plain->sizes, false)) {
        auto one = MakeCandidate(request_, options_, base_, mesh, changes);
        if (one) out.push_back(std::move(*one));
      }
    }
    return out;
  }

  void Axis(const char* name, int64_t AxisSizes::*axis) {
    const int64_t now = winner_.sizes.*axis;
    std::vector<int64_t> others;
    if (now > 1) others = {1, now / 2};
    others.push_back(now * 2);
    std::sort(others.begin(), others.end());
    others.erase(std::unique(others.begin(), others.end()), others.end());
    for (const int64_t size : others) {
      if (size == now || request_.devices % size != 0) continue;
      Add(std::string(name) + " " + std::to_string(now) + " -> " +
              std::to_string(size),
          OnMeshes(
              [&](const AxisSizes& sizes) { return sizes.*axis == size; }));
    }
  }

  void Meshes() {
    Axis("dp", &AxisSizes::data);
    Axis("fsdp", &AxisSizes::sharded);
    if (request_.model && request_.model->experts) {
      Axis("ep", &AxisSizes::experts);
    }
    Axis("sp", &AxisSizes::sequence);
    Axis("tp", &AxisSizes::tensor);
  }

  std::vector<Candidate> AllMeasured() {
    if (request_.mesh) return {winner_};
    if (!measured_) {
      measured_.emplace();
      for (Candidate& one : OnMeshes([](const AxisSizes&) { return true; })) {
        if (one.unmeasured.empty()) measured_->push_back(std::move(one));
      }
    }
    return *measured_;
  }

  void Settings() {
    const cost::Settings& now = grid_[point_.setting];
    for (size_t i = 0; i < grid_.remats().size(); ++i) {
      const step::Remat& remat = grid_.remats()[i];
      const bool plain = remat.keep == step::Keep::kEverything ||
                         remat.keep == step::Keep::kNothing ||
                         remat.keep == step::Keep::kDotsWithoutBatch;
      if (!plain || remat.text == now.remat.text) continue;
      Add("remat " + remat.text, AllMeasured(), {.remat = i});
    }
    for (size_t i = 0; i < grid_.micros().size(); ++i) {
      const int64_t parts = grid_.micros()[i];
      if (parts != now.microbatches * 2 && parts * 2 != now.microbatches) {
        continue;
      }
      Add("micro-batches " + std::to_string(now.microbatches) + " -> " +
              std::to_string(parts),
          AllMeasured(), {.micro = i});
      if (request_.unmeasured || out_.empty()) continue;
      out_.back().excluded = WhyUnmeasuredSettings(grid_[grid_.At(0, 0, i)]);
    }
    for (size_t i = 0; i < grid_.zeros().size(); ++i) {
      const int zero = grid_.zeros()[i];
      if (zero == now.zero || zero > 3) continue;
      std::vector<Candidate> replicated = AllMeasured();
      std::erase_if(replicated, [&](const Candidate& one) {
        return zero > 0 && one.sizes.data * one.sizes.sequence == 1;
      });
      Add("ZeRO " + std::to_string(now.zero) + " -> " + std::to_string(zero),
          std::move(replicated), {.zero = i});
    }
  }

  void Change(const std::string& change, Base base, RuleChanges changes) {
    auto one = MakeCandidate(request_, options_, base, winner_.mesh, changes);
    if (one) Add(change, {std::move(*one)});
  }

  void Rules() {
    for (const Base base : options_.bases()) {
      if (base == base_) continue;
      Change(base == Base::kGiven ? "the given rules or the pack"
                                  : "suggested rules",
             base, {});
    }
    const auto reverse = [&](const char* text, bool RuleChanges::*change) {
      RuleChanges changes = changes_;
      changes.*change = !(changes.*change);
      Change(text, base_, changes);
    };
    if (winner_.sizes.tensor > 1) {
      reverse("hidden states sharded over tp or not, contrary to the winner",
              &RuleChanges::turns_hidden);
      reverse("KV heads replicated over tp", &RuleChanges::replicates_keys);
    }
    if (winner_.sizes.experts > 1) {
      reverse("the batch over the experts' axis or not, contrary to the winner",
              &RuleChanges::batch_over_experts);
      if (winner_.sizes.tensor > 1) {
        reverse("experts sharded over tp or not, contrary to the winner",
                &RuleChanges::whole_experts);
      }
    }
    if (winner_.sizes.sharded * winner_.sizes.sequence > 1) {
      reverse("attention weights not sharded over data axes",
              &RuleChanges::holds_attention);
      reverse("embedding and head not sharded over data axes",
              &RuleChanges::holds_ends);
    }
  }

  void Orders() {
    const auto orders = OrdersOf(winner_.mesh, *request_.settings.profile);
    std::vector<Candidate> others;
    for (size_t i = 1; i < orders.size(); ++i) {
      Candidate one = winner_;
      one.mesh = orders[i];
      one.usual_order = false;
      one.unmeasured = "no measured run has this order of axes";
      others.push_back(std::move(one));
    }
    Add("another order of the axes", std::move(others));
  }

  const Request& request_;
  const SettingsGrid& grid_;
  RuleOptions& options_;
  const Candidate& winner_;
  const Point& point_;
  const Base base_;
  const RuleChanges changes_;
  std::optional<std::vector<Candidate>> measured_;
  std::vector<Pin> out_;
};

WhyNot Impossible(const Pin& pin, const Outcome& outcome) {
  WhyNot out;
  out.changes = {pin.change};
  out.verdict = outcome.legal && pin.excluded.empty() ? Verdict::kExceeds
                                                      : Verdict::kIllegal;
  if (!pin.excluded.empty()) {
    out.because = "excluded: " + pin.excluded;
    return out;
  }
  if (outcome.legal && pin.of_settings) {
    out.because = "no mesh that it divides has room";
    return out;
  }
  if (outcome.legal) {
    out.because =
        "needs at least " + BytesText(outcome.least_bytes) + " of a device";
    return out;
  }
  for (const std::string& reason : outcome.reasons) {
    AppendItem(out.because, "; ", reason);
  }
  return out;
}

// Returns, as a text, the memory that an alternative would need with the
// winner's settings. The text is empty if the alternative has these settings,
// if it surely fits with them, or if its mesh or batch does not allow them.
std::string NeedText(const RuleOptions& options, const Candidate& candidate,
                     uint32_t of_winner, uint32_t setting) {
  if (setting == of_winner) return "";
  const Evaluator& evaluator = *options[candidate.option].evaluator;
  const auto on = evaluator.On(candidate.mesh);
  if (!on || !evaluator.DividesAt(*on, of_winner)) return "";
  const Room room = evaluator.RoomOf(*on, of_winner);
  if (room.fit == cost::Fit::kFits) return "";
  return "; with the winner's settings it needs " + BytesText(room.bytes);
}

}  // namespace

Sharding Described(const Candidate& candidate, uint32_t setting,
                   const RuleOptions& options, int worker) {
  const RuleOption& option = options[candidate.option];
  Sharding out;
  out.base = option.base;
  out.mesh = candidate.mesh;
  out.rules = option.name;
  out.changes = option.changes;
  out.file = option.file;
  out.unmeasured = candidate.unmeasured;
  const auto on = option.evaluator->On(candidate.mesh);
  if (on) out.report = option.evaluator->ReportOf(*on, setting, worker);
  return out;
}

Sharding LeastOf(const SettingsGrid& grid, const RuleOptions& options,
                 const Candidate& candidate) {
  const Evaluator& evaluator = *options[candidate.option].evaluator;
  const auto on = evaluator.On(candidate.mesh);
  size_t least = 0;
  int64_t bytes = INT64_MAX;
  for (size_t zero = 0; on && zero < grid.zeros().size(); ++zero) {
    for (size_t remat = 0; remat < grid.remats().size(); ++remat) {
      for (size_t micro = 0; micro < grid.micros().size(); ++micro) {
        if (!evaluator.Divides(*on, grid.micros()[micro])) continue;
        const size_t setting = grid.At(zero, remat, micro);
        const Room room = evaluator.RoomOf(*on, setting);
        if (room.bytes >= bytes) continue;
        least = setting;
        bytes = room.bytes;
      }
    }
  }
  return Described(candidate, static_cast<uint32_t>(least), options, 0);
}

Alternatives WhyNotOf(const Request& request, const SettingsGrid& grid,
                      RuleOptions& options, const Pricer& pricer,
                      const std::vector<Candidate>& candidates,
                      const std::vector<Bound>& bounds, const Point& point,
                      const Deadline& deadline, ThreadPool& threads) {
  const Candidate& winner = candidates[point.candidate];
  const KnownBounds known(candidates, bounds);
  const std::vector<Pin> pins =
      Pins(request, grid, options, winner, point).Take();
  std::vector<Outcome> outcomes(pins.size());
  threads.Run(static_cast<int64_t>(pins.size()), [&](int64_t task, int worker) {
    const auto i = static_cast<size_t>(task);
    outcomes[i] = Best(pricer, known, pins[i], deadline, worker);
  });
  const Sharding best = Described(winner, point.setting, options, 0);
  Alternatives found;
  found.tried = pins.size();
  std::vector<WhyNot>& out = found.all;
  // Maps a combination of mesh, rules and settings to its index in `out`.
  std::map<std::string, size_t> same;
  for (size_t i = 0; i < pins.size(); ++i) {
    const Outcome& outcome = outcomes[i];
    // If the deadline passed, a candidate that was not evaluated may be faster.
    // The alternative is then not reported.
    if (outcome.unfinished) {
      ++found.unfinished;
      continue;
    }
    if (!outcome.best) {
      out.push_back(Impossible(pins[i], outcome));
      continue;
    }
    const Candidate& candidate = pins[i].candidates[outcome.candidate];
    const uint32_t setting = outcome.best->setting;
    const std::string key = MeshText(candidate.mesh) + "\n" +
                            std::to_string(candidate.option) + "\n" +
                            std::to_string(setting);
    const auto [at, fresh] = same.try_emplace(key, out.size());
    if (!fresh) {
      out[at->second].changes.push_back(pins[i].change);
      continue;
    }
    WhyNot one;
    one.changes = {pins[i].change};
    one.best = Described(candidate, setting, options, 0);
    const double ratio = one.best->Seconds() / best.Seconds();
    const bool same_kind = KindOf(candidate, grid[setting].zero) ==
                           KindOf(winner, grid[point.setting].zero);
    one.verdict = VerdictOf(ratio, same_kind ? kTieSameKind : kTieOther);
    one.parts = PartsOfDifference(best, *one.best);
    one.because = DifferenceText(one.parts);
    if (!pins[i].of_settings) {
      one.because += NeedText(options, candidate, point.setting, setting);
    }
    if (!candidate.unmeasured.empty()) {
      AppendItem(one.because, "; ",
                 std::string("excluded: ") + candidate.unmeasured);
    }
    out.push_back(std::move(one));
  }
  return found;
}

}  // namespace shardc::search
