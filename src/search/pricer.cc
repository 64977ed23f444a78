// Computes lower bounds of the time and memory of a candidate. A candidate is a
// mesh with rules. A setting is a ZeRO stage, a rematerialisation policy and a
// number of micro-batches.
//
// The communication of a setting is expensive to compute, so a bound of time is
// computed from the communication of another setting, the reference. The bound
// counts 97 % of what the reference sends, or nothing if larger messages may
// have a lower rate. A candidate has one reference, with the fewest
// micro-batches and the policy that keeps the most activations. ZeRO 3 has its
// own reference, because it gathers parameters over other axes. Before a
// setting is evaluated exactly, its bound is refined: the reference is then the
// setting that differs only in the policy. For example, a setting with ZeRO 3
// and 4 micro-batches on dp=16 ep=4 has these times:
//
//   bound 2.44 s, refined bound 3.29 s, exact time 3.31 s
//
// If matmuls with more rows never run at a lower rate (`ascends_`),
// more micro-batches never take less time with the same communication. Each
// matmul has fewer rows, and every micro-batch reads the weights. So only the
// smallest number of micro-batches that fits needs a bound. Otherwise, every
// larger number needs a bound too. The bound of the candidate is the lowest
// bound over all ZeRO stages and policies. For example, with fsdp=64 and a
// policy that keeps the outputs of matmuls, a step fits with 2 micro-batches
// and not with 1:
//
//   bound 1.69 s for every setting with this policy, exact time 1.70 s with 2
//   micro-batches
//
// More micro-batches need less memory, so the bound of memory is computed with
// the most micro-batches. With a single micro-batch the gradients have another
// size. Therefore the memory with the fewest micro-batches is computed too, and
// the smaller value is the bound.
#include "search/pricer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "cost/fit.h"
#include "cost/time.h"
#include "search/front.h"

namespace shardc::search {
namespace {

// The largest relative error of a sum of seconds that can result from adding
// its terms in another order.
constexpr double kRounding = 1e-9;

// Returns whether the rate of a matmul never falls if it has more rows.
bool RatesAscend(const cost::Settings& settings) {
  if (settings.profile == nullptr) return true;
  const Efficiency& of = settings.profile->efficiency;
  return Ascends(of.matmul_curve) && Ascends(of.matmul_fp8_curve);
}

// Adds a point to a Pareto front, unless a point of the front is better.
// Removes the points of the front that are worse than the new point.
void AddTo(std::vector<Point>& front, const Point& point) {
  const auto at = std::lower_bound(front.begin(), front.end(), point, Before);
  if (at != front.begin() && (at - 1)->bytes <= point.bytes) return;
  const auto last = std::find_if(at, front.end(), [&](const Point& other) {
    return other.bytes < point.bytes;
  });
  front.insert(front.erase(at, last), point);
}

// Returns whether some point of the front is faster and needs no more bytes.
bool IsBeaten(const std::vector<Point>& front, double seconds, int64_t bytes) {
  // Of the faster points, the last one has the fewest bytes.
  const auto at = std::lower_bound(
      front.begin(), front.end(), seconds,
      [](const Point& one, double value) { return one.seconds < value; });
  return at != front.begin() && (at - 1)->bytes <= bytes;
}

}  // namespace

struct Pricer::Entry {
  Evaluator* evaluator = nullptr;
  // The mesh of the first of the candidates that share this entry.
  Mesh mesh;
  bool compiles = true;  // whether the rules compile for the mesh
  std::mutex mutex;      // guards the members that follow
  // The plan compiled for the mesh, with the inputs of the cost model. nullopt
  // if it was released, or if the rules do not compile.
  std::optional<Prepared> on;
  // Indexed by ZeRO stage, then by number of micro-batches: the communication
  // with the policy that keeps the most activations.
  std::vector<std::optional<cost::Communication>> moves;
  // The setting that was evaluated last, and its memory. The memory is kept
  // because three results are computed from it, mostly one after the other:
  // whether the setting fits (Room), its bounds, and its time.
  std::optional<std::pair<size_t, cost::Memory>> last_memory;
  // The next three vectors are indexed by setting. Each value is computed when
  // it is first needed.
  std::vector<std::optional<Room>> rooms;
  std::vector<std::optional<double>> least, seconds;

  // Stores the compiled plan, and resizes the vectors of results for all
  // settings.
  void Prepare(std::optional<Prepared> prepared, const SettingsGrid& grid) {
    on = std::move(prepared);
    compiles = on.has_value();
    if (!compiles) return;
    moves.resize(grid.zeros().size() * grid.micros().size());
    rooms.resize(grid.size());
    least.resize(grid.size());
    seconds.resize(grid.size());
  }

  // Frees the compiled plan, which is most of the entry's memory. If `all` is
  // set, frees the results of all settings too.
  void Release(bool all) {
    on.reset();
    last_memory.reset();
    if (!all) return;
    moves = {};
    rooms = {};
    least = {};
    seconds = {};
  }
};

Pricer::Pricer(const Request& request, const SettingsGrid& grid,
               const RuleOptions& options, bool may, size_t most_held)
    : request_(request),
      grid_(grid),
      options_(options),
      may_(may),
      most_held_(most_held),
      ascends_(RatesAscend(request.settings)) {}
Pricer::~Pricer() = default;

void Incumbents::Add(const Point& point, const std::string& group) {
  fastest_ = std::min(fastest_, point.seconds);
  AddTo(front_, point);
  AddTo(groups_[group], point);
}

bool Incumbents::Exclude(double seconds, int64_t bytes,
                         const std::string& group) const {
  if (seconds > fastest_ * kFrontWindow) return true;
  if (!IsBeaten(front_, seconds, bytes)) return false;
  if (seconds > fastest_ * (1 + kTieOther)) return true;
  const auto at = groups_.find(group);
  return at != groups_.end() && IsBeaten(at->second, seconds, bytes);
}

Pricer::Entry& Pricer::EntryOf(const Candidate& candidate) const {
  const std::string key =
      std::to_string(candidate.option) + " " + MeshText(candidate.mesh);
  {
    const std::lock_guard lock(mutex_);
    const auto at = by_candidate_.find(key);
    if (at != by_candidate_.end()) return *at->second;
  }
  auto fresh = std::make_unique<Entry>();
  fresh->evaluator = options_[candidate.option].evaluator.get();
  fresh->mesh = candidate.mesh;
  fresh->Prepare(fresh->evaluator->On(candidate.mesh), grid_);
  std::optional<std::string> signature;
  if (fresh->on) {
    signature = cost::SignatureOf(*fresh->on->compiled, fresh->on->work);
  }
  const std::lock_guard lock(mutex_);
  Entry*& of_candidate = by_candidate_[key];
  if (of_candidate != nullptr) return *of_candidate;
  if (signature) {
    Entry*& same = by_signature_[*signature];
    if (same != nullptr) return *(of_candidate = same);
    same = fresh.get();
  }
  of_candidate = fresh.get();
  if (fresh->on) HoldLocked(*fresh);
  entries_.push_back(std::move(fresh));
  return *of_candidate;
}

// Adds `entry` to the queue, and releases the compiled plans of the oldest
// entries. An entry that another thread is using is moved to the end of the
// queue instead. The loop ends before `entry` itself is released.
void Pricer::HoldLocked(Entry& entry) const {
  held_.push_back(&entry);
  for (size_t tries = held_.size(); held_.size() > most_held_ && tries > 1;
       --tries) {
    Entry* const first = held_.front();
    held_.pop_front();
    const std::unique_lock lock(first->mutex, std::try_to_lock);
    if (lock) {
      first->Release(false);
    } else {
      held_.push_back(first);
    }
  }
}

void Pricer::Restore(Entry& entry) const {
  if (entry.on || !entry.compiles) return;
  entry.Prepare(entry.evaluator->On(entry.mesh), grid_);
  const std::lock_guard lock(mutex_);
  HoldLocked(entry);
}

const cost::Memory& Pricer::MemoryAt(Entry& entry, size_t setting) const {
  auto& last = entry.last_memory;
  if (!last || last->first != setting) {
    last.emplace(setting, entry.evaluator->MemoryOf(*entry.on, setting));
  }
  return last->second;
}

const Room& Pricer::RoomAt(Entry& entry, size_t setting) const {
  auto& room = entry.rooms[setting];
  if (!room) room = Evaluator::RoomOf(MemoryAt(entry, setting));
  return *room;
}

const cost::Communication& Pricer::ReferenceAt(Entry& entry, size_t setting,
                                               int worker) const {
  const size_t zero = grid_.ZeroOf(setting), micro = grid_.MicroOf(setting);
  auto& moves = entry.moves[zero * grid_.micros().size() + micro];
  if (!moves) {
    moves =
        entry.evaluator->MovesOf(*entry.on, grid_.At(zero, 0, micro), worker);
  }
  return *moves;
}

double Pricer::BoundBy(Entry& entry, size_t setting, size_t reference,
                       Evaluator::Shared shared, int worker) const {
  const Evaluator& evaluator = *entry.evaluator;
  cost::Communication moves;
  // If larger messages may have a lower rate, the bound counts no communication
  // (LeastMovesOf). The program of the reference setting is then not computed.
  if (evaluator.RatesAscend()) {
    moves =
        evaluator.LeastMovesOf(ReferenceAt(entry, reference, worker), shared);
  }
  return evaluator.SecondsWith(*entry.on, setting, MemoryAt(entry, setting),
                               moves) *
         (1 - kRounding);
}

double Pricer::LeastAt(Entry& entry, size_t setting, int worker) const {
  auto& least = entry.least[setting];
  if (!least) {
    const size_t reference = grid_.ReferenceOf(grid_.ZeroOf(setting));
    least = BoundBy(entry, setting, grid_.At(reference, 0, 0),
                    Evaluator::Shared::kNoGradients, worker);
  }
  return *least;
}

double Pricer::KnownAt(Entry& entry, size_t setting, const Refined& refined,
                       int worker) const {
  const size_t zero = grid_.ZeroOf(setting), own = grid_.MicroOf(setting);
  for (size_t after = own + 1; after > 0; --after) {
    const size_t micro = after - 1;
    const size_t reference = grid_.At(zero, 0, micro);
    if (refined.find(reference) == refined.end()) continue;
    return BoundBy(entry, setting, reference,
                   micro == own ? Evaluator::Shared::kAll
                                : Evaluator::Shared::kNoGradients,
                   worker);
  }
  return 0;
}

bool Pricer::IsExcludedWhenRefined(
    Entry& entry, size_t setting, Refined& refined, int worker,
    const std::function<bool(size_t setting, double seconds)>& excluded) const {
  if (excluded(setting, KnownAt(entry, setting, refined, worker))) return true;
  const size_t reference =
      grid_.At(grid_.ZeroOf(setting), 0, grid_.MicroOf(setting));
  // If `refined` already contains the reference, KnownAt() has computed the
  // bound from this reference.
  if (!refined.insert(reference).second) return false;
  return excluded(setting, BoundBy(entry, setting, reference,
                                   Evaluator::Shared::kAll, worker));
}

double Pricer::SecondsAt(Entry& entry, size_t setting, int worker) const {
  auto& seconds = entry.seconds[setting];
  if (!seconds) {
    Evaluator& evaluator = *entry.evaluator;
    const cost::Memory& memory = MemoryAt(entry, setting);
    seconds = grid_.RematOf(setting) == 0
                  ? evaluator.SecondsWith(*entry.on, setting, memory,
                                          ReferenceAt(entry, setting, worker))
                  : evaluator.SecondsOf(*entry.on, setting, memory, worker);
  }
  return *seconds;
}

Pricer::Axes Pricer::AxesOf(const Entry& entry, const Filter& filter) const {
  Axes out;
  const auto wanted = [](const std::optional<size_t>& only, size_t index) {
    return !only || *only == index;
  };
  const bool replicas = entry.evaluator->HasReplicas(*entry.on);
  for (size_t i = 0; i < grid_.zeros().size(); ++i) {
    if (i > 0 && !replicas) break;
    if (wanted(filter.zero, i)) out.zeros.push_back(i);
  }
  for (size_t i = 0; i < grid_.remats().size(); ++i) {
    if (wanted(filter.remat, i)) out.remats.push_back(i);
  }
  for (size_t i = 0; i < grid_.micros().size(); ++i) {
    const bool supported =
        request_.unmeasured || request_.microbatches_fixed ||
        WhyUnmeasuredSettings(grid_[grid_.At(0, 0, i)]).empty();
    if (supported && wanted(filter.micro, i) &&
        entry.evaluator->Divides(*entry.on, grid_.micros()[i])) {
      out.micros.push_back(i);
    }
  }
  return out;
}

Bound Pricer::BoundOf(const Candidate& candidate, int worker) const {
  Bound out;
  Entry& entry = EntryOf(candidate);
  const std::lock_guard lock(entry.mutex);
  Restore(entry);
  if (!entry.on) {
    out.reasons = {"the rules do not compile for it"};
    return out;
  }
  out.reasons = entry.evaluator->ReasonsAgainst(*entry.on);
  const Axes axes = AxesOf(entry, {});
  if (out.reasons.empty() && axes.micros.empty()) {
    out.reasons = {"no number of micro-batches divides the rows of a device"};
  }
  if (!out.reasons.empty()) {
    entry.Release(true);
    return out;
  }
  out.bytes = INT64_MAX;
  out.seconds = std::numeric_limits<double>::infinity();
  out.fits = false;
  for (const size_t zero : axes.zeros) {
    for (const size_t remat : axes.remats) {
      BoundAt(entry, axes, zero, remat, worker, out);
    }
  }
  return out;
}

void Pricer::BoundAt(Entry& entry, const Axes& axes, size_t zero, size_t remat,
                     int worker, Bound& out) const {
  const auto fits = [&](size_t micro) {
    const Room& room = RoomAt(entry, grid_.At(zero, remat, micro));
    out.bytes = std::min(out.bytes, room.bytes);
    return Fits(room);
  };
  const auto bound = [&](size_t micro) {
    out.fits = true;
    out.seconds = std::min(
        out.seconds, LeastAt(entry, grid_.At(zero, remat, micro), worker));
  };
  const auto begin = axes.micros.begin(), last = axes.micros.end() - 1;
  const bool one = fits(*begin), most = fits(*last);
  if (one) bound(*begin);
  if (!most || begin == last || (one && ascends_)) return;
  auto first = std::partition_point(begin + 1, last,
                                    [&](size_t micro) { return !fits(micro); });
  bound(*first);
  while (!ascends_ && first != last) bound(*++first);
}

std::vector<Pricer::Bounded> Pricer::SettingsBelow(
    Entry& entry, const Axes& axes, double least_seconds, int worker,
    const std::function<bool(size_t setting, double seconds)>& excluded) const {
  std::vector<Bounded> out;
  for (const size_t zero : axes.zeros) {
    for (const size_t remat : axes.remats) {
      double least = least_seconds;
      for (const size_t micro : axes.micros) {
        const size_t setting = grid_.At(zero, remat, micro);
        if (!Fits(RoomAt(entry, setting)) || excluded(setting, least)) continue;
        const double own = LeastAt(entry, setting, worker);
        if (ascends_) least = std::max(least, own);
        if (!excluded(setting, own)) out.emplace_back(own, setting);
      }
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

// The settings are evaluated in ascending order of their bounds, so that the
// first points exclude most other settings.
std::vector<Point> Pricer::PointsOf(const Candidate& candidate, uint32_t index,
                                    double least_seconds, const Filter& filter,
                                    int worker) const {
  std::vector<Point> out;
  Entry& entry = EntryOf(candidate);
  const std::lock_guard lock(entry.mutex);
  Restore(entry);
  if (!entry.on) return out;
  std::vector<std::string> groups;
  for (const int zero : grid_.zeros()) {
    groups.push_back(GroupOf(candidate, zero));
  }
  Incumbents own;
  const auto excluded = [&](size_t setting, double seconds) {
    if (seconds > filter.most_seconds) return true;
    if (filter.incumbents == nullptr) return false;
    const std::string& group = groups[grid_.ZeroOf(setting)];
    const int64_t bytes = RoomAt(entry, setting).bytes;
    return filter.incumbents->Exclude(seconds, bytes, group) ||
           own.Exclude(seconds, bytes, group);
  };
  Refined refined;
  for (const auto& [least, setting] : SettingsBelow(
           entry, AxesOf(entry, filter), least_seconds, worker, excluded)) {
    if (excluded(setting, least) ||
        IsExcludedWhenRefined(entry, setting, refined, worker, excluded)) {
      continue;
    }
    const double seconds = SecondsAt(entry, setting, worker);
    if (!std::isfinite(seconds) || excluded(setting, seconds)) continue;
    out.push_back({index, static_cast<uint32_t>(setting), seconds,
                   RoomAt(entry, setting).bytes});
    if (filter.incumbents == nullptr) continue;
    own.Add(out.back(), groups[grid_.ZeroOf(setting)]);
  }
  std::sort(out.begin(), out.end(), [](const Point& a, const Point& b) {
    return a.setting < b.setting;
  });
  return out;
}

std::optional<Point> Pricer::BestOf(const Candidate& candidate, uint32_t index,
                                    const Filter& filter, int worker) const {
  std::optional<Point> out;
  Entry& entry = EntryOf(candidate);
  const std::lock_guard lock(entry.mutex);
  Restore(entry);
  if (!entry.on) return out;
  double most = filter.most_seconds;
  const auto excluded = [&](size_t /*setting*/, double seconds) {
    return seconds > most;
  };
  Refined refined;
  for (const auto& [least, setting] :
       SettingsBelow(entry, AxesOf(entry, filter), 0, worker, excluded)) {
    if (least > most) break;
    if (IsExcludedWhenRefined(entry, setting, refined, worker, excluded)) {
      continue;
    }
    const double seconds = SecondsAt(entry, setting, worker);
    if (!std::isfinite(seconds) || seconds > most) continue;
    const Point point = {index, static_cast<uint32_t>(setting), seconds,
                         RoomAt(entry, setting).bytes};
    if (!out || Before(point, *out)) out = point;
    most = out->seconds;
  }
  return out;
}

// Enumerates the shardings that a search considers. Every factorisation of the
// number of devices over the axes is a mesh. The order of the axes decides
// which devices form a group along an axis. Two orders are different candidates
// only if the groups along an axis, or along two axes, are placed differently
// in the network. In this example, the groups have different numbers of members
// in a host:
//
//   dp=2 fsdp=32 on hosts of 8: fsdp has 8 members in a host, dp has 1
//   fsdp=32 dp=2:               fsdp has 4, dp has 2

namespace {

// If a search has more meshes than this, none is tried.
constexpr size_t kMostMeshes = 100'000;

// Returns numbers that describe how the device groups along every axis, and
// along every pair of axes, are placed in the network. Orders of the axes with
// equal results are one candidate.
std::vector<int64_t> PlacementOf(const Mesh& mesh,
                                 const std::vector<std::string>& axes,
                                 const DeviceProfile& profile) {
  const cost::Network network = cost::NetworkOf(profile, mesh);
  std::vector<int64_t> out;
  for (size_t i = 0; i < axes.size(); ++i) {
    for (size_t j = i; j < axes.size(); ++j) {
      const cost::GroupSpan place =
          cost::SpanOf(mesh, network, {axes[i], axes[j]});
      out.push_back(place.near);
      out.push_back(place.sharing);
    }
  }
  return out;
}

std::string UnmeasuredText(const Candidate& candidate,
                           const RuleChanges& changes, const Request& request) {
  const int64_t experts =
      request.model ? request.model->experts.value_or(0) : 0;
  std::string out = WhyUnmeasured(candidate.sizes, request.settings, experts);
  if (out.empty() && !changes.Measured()) {
    out = "no measured run has such rules";
  }
  return out;
}

}  // namespace

Mesh WithoutTrivial(const Mesh& mesh) {
  Mesh out = mesh;
  std::erase_if(out.axes, [](const MeshAxis& axis) { return axis.size == 1; });
  if (out.axes.empty() && !mesh.axes.empty()) {
    out.axes.push_back(mesh.axes.size() > 1 ? mesh.axes[1] : mesh.axes[0]);
  }
  return out;
}

std::vector<Mesh> MeshesOf(const Request& request, const RuleOptions& options,
                           Base base) {
  if (request.mesh) return {*request.mesh};
  auto out = cost::MeshesOf(request.devices, options.axes(base), kMostMeshes);
  return out ? std::move(*out) : std::vector<Mesh>{};
}

std::vector<Mesh> OrdersOf(const Mesh& mesh, const DeviceProfile& profile) {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : mesh.axes) axes.push_back(axis.name);
  std::vector<size_t> order(mesh.axes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::set<std::vector<int64_t>> seen;
  std::vector<Mesh> out;
  do {
    Mesh one = mesh;
    for (size_t i = 0; i < order.size(); ++i) {
      one.axes[i] = mesh.axes[order[i]];
    }
    if (seen.insert(PlacementOf(one, axes, profile)).second) {
      out.push_back(std::move(one));
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return out;
}

std::vector<RuleChanges> ChangesFor(const AxisSizes& sizes, bool unmeasured) {
  std::vector<RuleChanges> out = {{}};
  const auto both = [&](bool applies, bool RuleChanges::*change) {
    if (!applies) return;
    const size_t before = out.size();
    for (size_t i = 0; i < before; ++i) {
      out.push_back(out[i]);
      out.back().*change = true;
    }
  };
  both(sizes.tensor > 1, &RuleChanges::turns_hidden);
  const size_t before = out.size();
  both(sizes.experts > 1, &RuleChanges::batch_over_experts);
  const size_t sent = out.size();
  for (size_t i = before; i < sent && sizes.tensor > 1; ++i) {
    out.push_back(out[i]);
    out.back().whole_experts = true;
  }
  if (!unmeasured) return out;
  const bool shards = sizes.sharded * sizes.sequence > 1;
  const size_t measured = out.size();
  const auto each = [&](bool applies, bool RuleChanges::*change) {
    for (size_t i = 0; applies && i < measured; ++i) {
      out.push_back(out[i]);
      out.back().*change = true;
    }
  };
  each(sizes.tensor > 1, &RuleChanges::replicates_keys);
  each(shards, &RuleChanges::holds_attention);
  each(shards, &RuleChanges::holds_ends);
  return out;
}

std::optional<Candidate> MakeCandidate(const Request& request,
                                       RuleOptions& options, Base base,
                                       const Mesh& mesh,
                                       const RuleChanges& changes) {
  Candidate out;
  out.mesh = request.mesh ? mesh : WithoutTrivial(mesh);
  const auto option = options.For(base, out.mesh, changes);
  if (!option) return std::nullopt;
  out.option = *option;
  out.sizes = SizesOf(out.mesh, options[*option].evaluator->axes());
  out.unmeasured = UnmeasuredText(out, changes, request);
  return out;
}

std::vector<Candidate> AllCandidates(const Request& request,
                                     RuleOptions& options) {
  std::vector<Candidate> out;
  for (const Base base : options.bases()) {
    for (const Mesh& mesh : MeshesOf(request, options, base)) {
      const auto plain = MakeCandidate(request, options, base, mesh, {});
      if (!plain) continue;
      const bool wanted = request.unmeasured || request.mesh.has_value();
      if (!wanted && !plain->unmeasured.empty()) continue;
      const auto changes = request.keep_rules
                               ? std::vector<RuleChanges>{{}}
                               : ChangesFor(plain->sizes, request.unmeasured);
      for (const RuleChanges& change : changes) {
        auto one = MakeCandidate(request, options, base, mesh, change);
        if (!one) continue;
        if (!request.unmeasured || request.mesh || !change.Measured()) {
          out.push_back(std::move(*one));
          continue;
        }
        const auto orders = OrdersOf(one->mesh, *request.settings.profile);
        for (size_t i = 0; i < orders.size(); ++i) {
          Candidate ordered = *one;
          ordered.mesh = orders[i];
          ordered.usual_order = i == 0;
          if (i > 0 && ordered.unmeasured.empty()) {
            ordered.unmeasured = "no measured run has this order of axes";
          }
          out.push_back(std::move(ordered));
        }
      }
    }
  }
  return out;
}

}  // namespace shardc::search
