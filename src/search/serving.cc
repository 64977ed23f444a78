// Searches the layouts of a model that is served. Every layout is compiled from
// the rules that the search starts from, and all of its figures are those of
// `cost --engine`. Layouts are tried as engines have them: tensor parallelism
// within attention, and for models with experts, attention ranks with their own
// requests, and experts sharded as their layers or spread over all devices.
//
// For each layout, the numbers of slots grow in steps of a third of a doubling;
// devices that only prefill are tried with 1, 2 and 4 prompts at once.
// The most slots that meet the targets give the highest rate. If prefill and
// decode have their own devices, the best decode instance of a layout has the
// requests d each second, and a prefill instance the requests p. P and D
// instances then serve min(P p, D d). For example, for 8 devices with p = 7 in
// 2 devices, and d = 6 in 2 devices:
//
//   1 and 3 instances: 7, 2 and 2: 12, 3 and 1: 6   ->   2 and 2
#include "search/serving.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "cost/settings.h"
#include "search/pricer.h"
#include "search/rule_options.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::search {
namespace {

using cost::Between;
using cost::Real;
using cost::ServingReport;
using cost::SumOf;
using cost::TimePart;

constexpr int64_t kMostTensor = 16;
constexpr int64_t kStepsOfDoubling = 3;
// The most prompts that devices which only prefill are tried with at once, on
// each attention rank.
constexpr int64_t kMostPrompts = 4;
// More prompts at once wait longer for each other, so they are chosen if they
// give at least this rate of fewer.
constexpr double kWorthMorePrompts = 1.05;
constexpr double kRateRounding = 1e-9;

bool IsPowerOfTwo(int64_t n) { return (n & (n - 1)) == 0; }

Between Scaled(const Between& of, double by) {
  return {of.least * by, of.expected * by, of.most * by};
}
Between Smaller(const Between& a, const Between& b) {
  return {std::min(a.least, b.least), std::min(a.expected, b.expected),
          std::min(a.most, b.most)};
}

// Adds the seconds of each part of `more`, times `factor`, to the part of the
// same name.
void AddParts(std::vector<TimePart>& to, const std::vector<TimePart>& more,
              double factor) {
  for (const TimePart& part : more) {
    const auto at = std::find_if(
        to.begin(), to.end(),
        [&](const TimePart& one) { return one.name == part.name; });
    if (at == to.end()) {
      to.push_back({part.name, factor * part.seconds});
    } else {
      at->seconds += factor * part.seconds;
    }
  }
}

// The decode step and what prefill adds to it. The sum is the expected TPOT.
std::vector<TimePart> TokenParts(const cost::ServingTimes& times) {
  auto out = times.parts;
  out.push_back({"prefill", times.between});
  return out;
}

// The device's seconds for one generated token on an instance that is always
// busy.
std::vector<TimePart> DeviceParts(const ServingSide& side, int64_t output) {
  const cost::ServingTimes& times = *side.report.times;
  if (side.serves == Serves::kPrefill) {
    const double token =
        Real(side.report.request.input) / (times.rate.expected * Real(output));
    return {{"prefill", token}};
  }
  auto out = TokenParts(times);
  const double scale = 1 / (times.rate.expected * times.token.expected);
  for (TimePart& part : out) part.seconds *= scale;
  return out;
}

// A layout that can be compiled, with its figures.
struct Evaluated {
  ServingLayout layout;
  cost::CostInputs decode, prefill;
  // By Serves: the report at the floor, which has one request in each attention
  // rank, and the report with the highest rate that meets the targets.
  std::map<Serves, ServingReport> floor = {}, best = {};
  // Bytes of a device for the cache of a prompt.
  int64_t cache = 0;

  // Returns the requests each second that one instance serves.
  Between Requests(const ServingReport& report, int64_t output) const {
    const int64_t tokens =
        report.mode == Mode::kPrefill ? report.request.input : output;
    return Scaled(report.times->rate, Real(layout.mesh.devices) / Real(tokens));
  }
  ServingSide Side(Serves serves, int64_t instances) const {
    return {serves, layout, instances, best.at(serves)};
  }
};

class Searcher {
 public:
  Searcher(const Request& request, const ServeTargets& targets)
      : request_(request),
        targets_(targets),
        grid_(request),
        options_(request, grid_) {}

  FoundServing Run() {
    const int64_t experts =
        request_.model ? request_.model->experts.value_or(0) : 0;
    for (int64_t tensor = 1; tensor <= std::min(request_.devices, kMostTensor);
         ++tensor) {
      if (!request_.unmeasured && !IsPowerOfTwo(tensor)) continue;
      Add(tensor, 1, 1);
      const int64_t most = std::min(request_.devices, experts);
      for (int64_t n = std::max<int64_t>(tensor, 2); n <= most; n += tensor) {
        if (experts % n == 0) Add(tensor, n / tensor, n);
      }
    }
    if (!out_.not_known.empty()) {
      out_.others.clear();
      return std::move(out_);
    }
    std::vector<Serving> all = Aggregated();
    Append(all, Disaggregated());
    Rank(std::move(all));
    std::stable_sort(out_.others.begin(), out_.others.end(),
                     [](const NotServing& a, const NotServing& b) {
                       return a.shortfall < b.shortfall;
                     });
    return std::move(out_);
  }

 private:
  static void Append(std::vector<Serving>& to, std::vector<Serving> from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()),
              std::make_move_iterator(from.end()));
  }

  void Refuse(const ServingLayout& layout, std::vector<std::string> reasons) {
    const std::string text = LayoutText(layout);
    if (!out_.refused.empty() && out_.refused.back().reasons == reasons) {
      out_.refused.back().layouts.push_back(text);
    } else {
      out_.refused.push_back({{text}, std::move(reasons)});
    }
  }

  // Compiles and evaluates a layout.
  void Add(int64_t tensor, int64_t ranks, int64_t experts) {
    ServingLayout layout;
    layout.tensor = tensor;
    layout.ranks = ranks;
    layout.experts = experts;
    RuleChanges changes;
    changes.batch_over_experts = ranks > 1;
    changes.whole_experts = experts > 1 && tensor > 1;
    changes.repeats_keys = request_.model && !request_.model->latent_rank &&
                           tensor > request_.model->kv_heads.value_or(tensor);
    if (options_.bases().empty()) return;
    const Base base = options_.bases().front();
    layout.mesh.axes = {{"ep", ranks, AxisType::kAuto},
                        {"tp", tensor, AxisType::kAuto}};
    layout.mesh.devices = tensor * ranks;
    layout.mesh = WithoutTrivial(layout.mesh);
    layout.mesh.device = request_.device;
    const auto option = options_.For(base, layout.mesh, changes);
    if (!option) {
      return Refuse(layout,
                    {"the rules cannot shard the model so on this mesh"});
    }
    layout.file = options_.FileFor(*option, layout.mesh);
    layout.rules = targets_.rules_text(layout.file);
    const Evaluator& evaluator = *options_[*option].evaluator;
    const auto prepared = evaluator.On(layout.mesh);
    if (!prepared) {
      return Refuse(layout, {"the rules do not compile on this mesh"});
    }
    Evaluated one{.layout = std::move(layout),
                  .decode = evaluator.WorkOf(*prepared, Mode::kDecode),
                  .prefill = evaluator.WorkOf(*prepared, Mode::kPrefill)};
    std::vector<std::string> reasons;
    for (const cost::CostInputs* work : {&one.decode, &one.prefill}) {
      for (std::string& reason :
           cost::ReasonsAgainst(*prepared->compiled, *work, {})) {
        AddOnce(reasons, std::move(reason));
      }
    }
    const int64_t groups = cost::ExpertGroups(one.decode);
    if (reasons.empty() && groups != experts) {
      reasons.push_back("the rules put the experts on " +
                        Counted(groups, "group") + " of devices, and not on " +
                        std::to_string(experts));
    }
    if (reasons.empty() && prepared->compiled->HasIllegal()) {
      reasons.emplace_back("a spec is illegal on this mesh");
    }
    for (std::string& reason :
         cost::RefusalsOf(one.decode, targets_.requests)) {
      AddOnce(reasons, std::move(reason));
    }
    if (!reasons.empty()) {
      return Refuse(one.layout, std::move(reasons));
    }
    if (targets_.aggregated) Evaluate(Serves::kBoth, one);
    if (targets_.disaggregated) {
      Evaluate(Serves::kDecode, one);
      Evaluate(Serves::kPrefill, one);
      cost::ServingRequest prompt = targets_.requests;
      prompt.engine = nullptr;
      prompt.slots = one.layout.ranks;
      prompt.output = 1;
      one.cache = cost::ServingOf(one.decode, request_.settings, prompt)
                      .cache_request.value_or(0);
    }
    layouts_.push_back(std::move(one));
  }

  ServingReport ReportOf(const Evaluated& one, Serves serves, int64_t slots) {
    const bool prefill = serves == Serves::kPrefill;
    cost::ServingRequest request = targets_.requests;
    request.slots = slots;
    request.disaggregated = serves != Serves::kBoth;
    if (prefill) request.output = 1;
    ++out_.evaluated;
    return cost::ServingOf(prefill ? one.prefill : one.decode,
                           request_.settings, request);
  }

  bool Meets(const ServingReport& report, Serves serves) const {
    if (!report.times) return false;
    const cost::ServingTimes& times = *report.times;
    const bool first = serves == Serves::kDecode ||
                       (times.first && times.first->least <= targets_.first);
    return first && (serves == Serves::kPrefill ||
                     times.token.expected <= targets_.token);
  }

  void Evaluate(Serves serves, Evaluated& one) {
    const int64_t ranks = one.layout.ranks;
    const ServingReport& floor =
        one.floor.emplace(serves, ReportOf(one, serves, ranks)).first->second;
    AddNotKnown(floor.unknown, out_.not_known);
    if (out_.assumptions.empty()) out_.assumptions = floor.assumptions;
    if (!Meets(floor, serves)) return AddShort(serves, one, floor);
    one.best.emplace(serves, floor);
    const bool prefill = serves == Serves::kPrefill;
    int64_t room = floor.mean_slots.value_or(0) / ranks;
    if (prefill) room = std::min(room, kMostPrompts);
    int64_t last = 1;
    for (int step = 1;; ++step) {
      const int64_t each = std::llround(
          std::exp2(Real(step) / (prefill ? 1 : Real(kStepsOfDoubling))));
      if (each > room) break;
      if (each == last) continue;
      last = each;
      ServingReport report = ReportOf(one, serves, each * ranks);
      // Times grow with the slots.
      if (!Meets(report, serves)) break;
      const double least = (prefill ? kWorthMorePrompts : 1) *
                           one.best.at(serves).times->rate.expected;
      if (report.times->rate.expected > least) {
        one.best.insert_or_assign(serves, std::move(report));
      }
    }
  }

  // Records why a layout does not meet the targets with one request in each
  // attention rank.
  void AddShort(Serves serves, const Evaluated& one,
                const ServingReport& floor) {
    NotServing out;
    out.sides.push_back({serves, one.layout, 1, floor});
    if (!floor.times) {
      if (!floor.unknown.empty() || !floor.capacity || !floor.weights) return;
      // What does not fit for prefill and decode fits for neither.
      if (one.floor.size() > 1 && one.floor.begin()->first != serves &&
          !one.floor.begin()->second.times) {
        return;
      }
      out.shortfall = Shortfall::kMemory;
      out.limit = Real(*floor.capacity);
      out.parts = {{"weights", Real(*floor.weights)},
                   {"runtime", Real(floor.reserve)},
                   {"cache", Real(floor.cache_request.value_or(0))}};
    } else if (serves != Serves::kPrefill &&
               floor.times->token.expected > targets_.token) {
      out.shortfall = Shortfall::kToken;
      out.limit = targets_.token;
      out.parts = TokenParts(*floor.times);
    } else if (floor.times->first) {
      out.shortfall = Shortfall::kFirst;
      out.limit = targets_.first;
      out.least = floor.times->first->least;
      out.parts = floor.times->first_parts;
    } else {
      return Refuse(one.layout,
                    {"ttft is not known: " + floor.times->first_unknown});
    }
    out.value = SumOf(out.parts);
    out_.others.push_back(std::move(out));
  }

  // Sets the figures that depend on all instances of `out`. `served` are the
  // requests of each second.
  void Finish(const Evaluated& decode, Serves serves, double served,
              Serving& out) const {
    const double output = Real(targets_.requests.output);
    const int64_t counted = targets_.arriving ? out.used : request_.devices;
    out.rate = served * output / Real(counted);
    const ServingReport& floor = decode.floor.at(serves);
    out.token = decode.best.at(serves).times->token;
    out.floor = floor.times->token.expected;
    out.margin = targets_.token / out.floor - 1;
    for (const ServingSide& side : out.sides) {
      AddParts(out.device_time, DeviceParts(side, targets_.requests.output), 1);
    }
    out.device_time.push_back(
        {"unused", 1 / out.rate - SumOf(out.device_time)});
  }

  void AddTooSlow(std::vector<ServingSide> sides, double requests) {
    NotServing out;
    out.shortfall = Shortfall::kRequests;
    out.sides = std::move(sides);
    out.value = requests;
    out.limit = *targets_.arriving;
    out_.others.push_back(std::move(out));
  }

  std::vector<Serving> Aggregated() {
    std::vector<Serving> all;
    for (const Evaluated& one : layouts_) {
      if (!one.best.contains(Serves::kBoth)) continue;
      const int64_t devices = one.layout.mesh.devices;
      const Between each =
          one.Requests(one.best.at(Serves::kBoth), targets_.requests.output);
      int64_t instances = request_.devices / devices;
      const double most = Real(instances) * each.expected;
      double served = most;
      if (targets_.arriving) {
        served = *targets_.arriving;
        if (most < served) {
          AddTooSlow({one.Side(Serves::kBoth, instances)}, most);
          continue;
        }
        instances = std::min(
            instances, static_cast<int64_t>(std::ceil(served / each.expected)));
      }
      Serving& out = all.emplace_back();
      out.sides = {one.Side(Serves::kBoth, instances)};
      out.used = instances * devices;
      out.requests = Scaled(each, Real(instances));
      out.first = *out.sides[0].report.times->first;
      Finish(one, Serves::kBoth, served, out);
    }
    return all;
  }

  // Returns the bytes that pass the busiest device if a cache is sent from the
  // devices that prefilled it. Devices that have the same heads share the
  // sending, as in the map of `shardc kv`.
  int64_t BusiestBytes(const Evaluated& prefill,
                       const Evaluated& decode) const {
    const int64_t sources = prefill.layout.tensor,
                  destinations = decode.layout.tensor;
    const auto& model = *request_.model;
    const int64_t heads =
        model.latent_rank ? 1 : model.kv_heads.value_or(sources);
    const int64_t senders =
        std::max(std::min(sources, heads), std::min(sources, destinations));
    const int64_t received = cost::Times(destinations, decode.cache);
    return std::max(received / senders, decode.cache);
  }

  // Returns the numbers of prefill and of decode instances that serve the most
  // requests, or as many as arrive. Of those that serve as many, the fewest
  // instances are returned; {0, 0} if the devices do not suffice for one each.
  std::pair<int64_t, int64_t> Instances(const Evaluated& prefill, double p,
                                        const Evaluated& decode,
                                        double d) const {
    const int64_t prefilling = prefill.layout.mesh.devices,
                  decoding = decode.layout.mesh.devices;
    if (targets_.arriving &&
        *targets_.arriving / std::min(p, d) < Real(request_.devices)) {
      const auto needed = [&](double each) {
        return static_cast<int64_t>(std::ceil(*targets_.arriving / each));
      };
      if (needed(p) * prefilling + needed(d) * decoding <= request_.devices) {
        return {needed(p), needed(d)};
      }
    }
    const auto left = [&](int64_t n) {
      return (request_.devices - n * prefilling) / decoding;
    };
    // With more prefill instances, prefill serves more requests and decode
    // fewer. `few` is the largest number with which prefill serves fewer.
    const int64_t most = (request_.devices - decoding) / prefilling;
    if (most < 1 || decoding > request_.devices) return {0, 0};
    int64_t few = 0, many = most + 1;
    while (many - few > 1) {
      const int64_t middle = few + (many - few) / 2;
      (Real(middle) * p < Real(left(middle)) * d ? few : many) = middle;
    }
    const auto served = [&](int64_t n) {
      return n < 1 || n > most ? 0 : std::min(Real(n) * p, Real(left(n)) * d);
    };
    const int64_t best = served(few) >= served(many) ? few : many;
    const auto fewest =
        static_cast<int64_t>(std::ceil(served(best) / d - kRateRounding));
    return {best, std::clamp<int64_t>(fewest, 1, left(best))};
  }

  std::vector<Serving> Disaggregated() {
    std::vector<Serving> all;
    for (const Evaluated& prefill : layouts_) {
      if (!prefill.best.contains(Serves::kPrefill)) continue;
      for (const Evaluated& decode : layouts_) {
        if (decode.best.contains(Serves::kDecode))
          AddPair(prefill, decode, all);
      }
    }
    if (!slow_pair_.empty()) AddTooSlow(std::move(slow_pair_), slow_requests_);
    return all;
  }

  void AddPair(const Evaluated& prefill, const Evaluated& decode,
               std::vector<Serving>& all) {
    Serving out;
    out.transfer =
        cost::TransferSeconds(*request_.settings.profile, prefill.layout.mesh,
                              BusiestBytes(prefill, decode));
    // Where several prompts at once leave no time for the transfer, one is
    // prefilled at a time.
    const ServingReport* first = &prefill.best.at(Serves::kPrefill);
    if (first->times->first->least + out.transfer > targets_.first) {
      first = &prefill.floor.at(Serves::kPrefill);
    }
    const int64_t output = targets_.requests.output;
    const Between p = prefill.Requests(*first, output),
                  d = decode.Requests(decode.best.at(Serves::kDecode), output);
    const auto [prefilling, decoding] =
        Instances(prefill, p.expected, decode, d.expected);
    if (prefilling == 0) return;
    out.sides = {{Serves::kPrefill, prefill.layout, prefilling, *first},
                 decode.Side(Serves::kDecode, decoding)};
    const cost::ServingTimes& times = *out.sides[0].report.times;
    if (times.first->least + out.transfer > targets_.first) {
      NotServing slow;
      slow.shortfall = Shortfall::kFirst;
      slow.sides = std::move(out.sides);
      slow.parts = times.first_parts;
      slow.parts.push_back({"transfer", out.transfer});
      slow.value = SumOf(slow.parts);
      slow.least = times.first->least + out.transfer;
      slow.limit = targets_.first;
      out_.others.push_back(std::move(slow));
      return;
    }
    out.first = {times.first->least + out.transfer,
                 times.first->expected + out.transfer,
                 times.first->most + out.transfer};
    out.requests =
        Smaller(Scaled(p, Real(prefilling)), Scaled(d, Real(decoding)));
    double served = out.requests.expected;
    if (targets_.arriving) {
      if (served < *targets_.arriving) {
        if (served > slow_requests_) slow_pair_ = std::move(out.sides);
        slow_requests_ = std::max(slow_requests_, served);
        return;
      }
      served = *targets_.arriving;
    }
    out.used = prefilling * prefill.layout.mesh.devices +
               decoding * decode.layout.mesh.devices;
    Finish(decode, Serves::kDecode, served, out);
    all.push_back(std::move(out));
  }

  // Divides the layouts into those within kTie of the best, and the others. Of
  // the pairs among the others, the best of each layout for prefill and of each
  // for decode is kept.
  void Rank(std::vector<Serving> all) {
    std::stable_sort(
        all.begin(), all.end(), [](const Serving& a, const Serving& b) {
          return std::tie(b.rate, a.used) < std::tie(a.rate, b.used);
        });
    std::set<std::pair<Serves, std::string>> seen;
    for (Serving& one : all) {
      if (one.rate >= (1 - kTie) * all.front().rate) {
        for (const ServingSide& side : one.sides) {
          seen.emplace(side.serves, LayoutText(side.layout));
        }
        out_.layouts.push_back(one);
        continue;
      }
      bool fresh = false;
      for (const ServingSide& side : one.sides) {
        fresh |= seen.emplace(side.serves, LayoutText(side.layout)).second;
      }
      if (!fresh) continue;
      NotServing slow;
      slow.sides = std::move(one.sides);
      slow.parts = std::move(one.device_time);
      AddParts(slow.parts, all.front().device_time, -1);
      slow.value = SumOf(slow.parts);
      out_.others.push_back(std::move(slow));
    }
  }

  const Request& request_;
  const ServeTargets& targets_;
  const SettingsGrid grid_;
  RuleOptions options_;
  std::vector<Evaluated> layouts_;
  // Of the pairs that serve fewer requests than arrive, the fastest.
  std::vector<ServingSide> slow_pair_;
  double slow_requests_ = 0;
  FoundServing out_;
};

}  // namespace

FoundServing SearchServing(const Request& request,
                           const ServeTargets& targets) {
  return Searcher(request, targets).Run();
}

std::string LayoutText(const ServingLayout& layout) {
  std::string out = "tp " + std::to_string(layout.tensor);
  if (layout.ranks > 1) {
    out += ", attention dp " + std::to_string(layout.ranks);
  }
  if (layout.experts > 1) out += ", ep " + std::to_string(layout.experts);
  return out;
}

}  // namespace shardc::search
