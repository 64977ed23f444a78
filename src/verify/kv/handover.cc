// The run of a handover. Sizes that do not decide where a row is are reduced:
// heads have 2 to 6 numbers, and pages, interleaved tokens and windows are
// divided by what the pages and interleaved tokens of both sides have in
// common. For example, pages of 64 and 16 become pages of 12 and 3, and the
// request has 25 tokens, so that the last page of both sides is partial.
//
// The copies use only what the map states: devices, layers, local numbers of
// heads, and tokens, whose pages each side finds by itself. Memory to which
// nothing was written is NaN. A map can thus be wrong in four ways: a row is
// not where it is read, is written twice, is lacking or superfluous after the
// copies, or decode computes other numbers than the model with one cache.
#include "verify/kv/handover.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "source/size.h"
#include "source/wording.h"
#include "verify/kv/model.h"

namespace shardc::verify {
namespace {

// A request of at most this number of tokens is run as it is.
constexpr int64_t kMostAsGiven = 64;
constexpr int64_t kMostTokens = 1024;
constexpr int64_t kMostDevices = 1024;
constexpr int64_t kMostRows = int64_t{1} << 20;
constexpr int64_t kMostProducts = int64_t{1} << 28;
// The tokens of the smaller page, where the sizes have a common factor.
constexpr int64_t kSmallPage = 3;

struct Reduced {
  kv::SideSettings from, to;
  int64_t tokens = 0;
  int64_t factor = 1, divisor = 1;  // windows are multiplied and divided
};

Reduced Reduce(const HandoverRequest& request) {
  Reduced out{request.from.side.settings, request.to.side.settings};
  const auto given = request.settings.tokens;
  if (given && *given <= kMostAsGiven) {
    out.tokens = *given;
    return out;
  }
  // The sizes in tokens that are reduced together.
  std::vector<int64_t*> sizes;
  for (const bool source : {true, false}) {
    kv::SideSettings& side = source ? out.from : out.to;
    const int64_t parts = (source ? request.from : request.to).side.token_parts;
    if (side.page) sizes.push_back(&*side.page);
    if (parts > 1 && side.interleave.value_or(0) > 0) {
      sizes.push_back(&*side.interleave);
    }
  }
  int64_t least = 0;
  for (const int64_t* size : sizes) {
    out.divisor = std::gcd(sizes.front() == size ? 0 : out.divisor, *size);
    least = least == 0 ? *size : std::min(least, *size);
  }
  out.factor = std::clamp<int64_t>(
      CeilDiv(kSmallPage * out.divisor, std::max<int64_t>(least, 1)), 1,
      out.divisor);
  for (int64_t* size : sizes) *size = *size / out.divisor * out.factor;
  // Two complete pages of each part and a partial page.
  const auto need = [&](const kv::SideSettings& settings, int64_t parts) {
    const int64_t page = settings.page.value_or(kUsualPage);
    const int64_t part = std::max(page, settings.interleave.value_or(0));
    return (Size(2) * part * parts + 1).value();
  };
  out.tokens = std::max(need(out.from, request.from.side.token_parts),
                        need(out.to, request.to.side.token_parts));
  const int64_t a = out.from.page.value_or(kUsualPage),
                b = out.to.page.value_or(kUsualPage);
  if (request.settings.replicas == kv::Replicas::kShareTokens) {
    // Replicas send complete pages of both sides.
    out.tokens =
        std::max(out.tokens, (Size(a) / std::gcd(a, b) * b * 4 + 1).value());
  }
  while (out.tokens < kMostTokens &&
         ((a > 1 && out.tokens % a == 0) || (b > 1 && out.tokens % b == 0))) {
    ++out.tokens;
  }
  return out;
}

// Returns the window of the run. It is shorter than the request if the window
// of the plan is, or if the length of the request is not known.
int64_t WindowOf(const HandoverRequest& request, const kv::Kind& kind,
                 const Reduced& reduced) {
  const int64_t window = kind.is.window;
  const auto given = request.settings.tokens;
  if (!kind.IsPaged() || window == 0 || given == reduced.tokens) return window;
  const int64_t less = std::max<int64_t>(
      (Size(window) * reduced.factor / reduced.divisor).value(), 1);
  if (given && *given <= window) return std::max(less, reduced.tokens);
  return std::min(less, reduced.tokens * 2 / 3);
}

bool CanRun(Dtype dtype) {
  constexpr Dtype kRun[] = {Dtype::kF64,  Dtype::kF32,    Dtype::kF16,
                            Dtype::kBF16, Dtype::kF8E4M3, Dtype::kF8E5M2,
                            Dtype::kI8};
  return std::find(std::begin(kRun), std::end(kRun), dtype) != std::end(kRun);
}

std::string WhyNotRun(const std::vector<kv::Kind>& kinds, size_t index,
                      const kv::SideSettings& from,
                      const kv::SideSettings& to) {
  const kv::Kind& kind = kinds[index];
  if (kind.is.heads == 0) return "its sizes are not known";
  for (const kv::SideSettings* side : {&from, &to}) {
    const Dtype dtype = DtypeOf(kind, *side);
    if (!CanRun(dtype) || (dtype == Dtype::kI8 && !kind.IsPaged())) {
      return "rows in " + std::string(DtypeName(dtype)) + " cannot be run";
    }
    if (dtype == Dtype::kI8 && kind.is.kind == KvKindName::kIndexer) {
      return "in int8 it shares the scale of the latent row";
    }
  }
  if (kind.IsPaged() && kind.is.kind != KvKindName::kIndexer) return {};
  // Other kinds of the same layers: those whose logits an indexer changes, and
  // the inputs of a state's convolution.
  bool attention = false;
  int64_t keys = 0, values = 0, conv = 0;
  for (const kv::Kind& other : kinds) {
    if (other.draft != kind.draft || other.is.layers != kind.is.layers) {
      continue;
    }
    if (other.IsPaged() && other.is.kind != kind.is.kind) attention = true;
    if (other.is.kind == KvKindName::kState) values = other.is.heads;
    if (other.is.kind == KvKindName::kConvKey) keys = other.is.heads;
    if (other.is.kind == KvKindName::kConvValue) conv = other.is.heads;
  }
  if (kind.IsPaged()) return attention ? "" : "its layers have no attention";
  if (keys > 0 && values > 0 && values == conv && values % keys == 0) return {};
  return "the inputs of its convolution are not known";
}

// Returns the number of query heads for each head, at least 2, which the
// devices of both sides divide.
int64_t QueriesOf(const kv::Kind& kind, size_t index, const ServerAxes& from,
                  const ServerAxes& to) {
  if (!kind.IsPaged()) return 1;
  Size out = 1;
  for (const ServerAxes* axes : {&from, &to}) {
    const int64_t rest = axes->RestParts(index);
    const int64_t heads = kind.is.heads / axes->HeadParts(index);
    const int64_t need = rest / std::gcd(rest, heads);
    out = out / std::gcd(out.value(), need) * need;
  }
  return out.value() == 1 ? 2 : out.value();
}

// Returns the largest difference, or nullopt if one is not a number. Sets
// `layer` to the first layer that differs by more than `allowed`.
std::optional<double> Difference(const TinyModel& model,
                                 const std::vector<Numbers>& have,
                                 const std::vector<Numbers>& want,
                                 double allowed,
                                 std::optional<int64_t>& layer) {
  double out = 0;
  bool number = have.size() == want.size();
  for (size_t i = 0; i < std::min(have.size(), want.size()); ++i) {
    double largest = 1, most = 0;
    for (size_t j = 0; j < want[i].size(); ++j) {
      largest = std::max(largest, std::fabs(want[i][j]));
      const double difference = std::fabs(have[i][j] - want[i][j]);
      number = number && !std::isnan(difference);
      most = std::max(most, difference);
    }
    out = std::max(out, most / largest);
    if ((!number || out > allowed) && !layer) layer = model.layers()[i].number;
  }
  return number ? std::optional(out) : std::nullopt;
}

class Runner {
 public:
  Runner(const HandoverRequest& request, Findings& findings)
      : request_(request), findings_(findings) {}

  std::optional<Handover> Run() {
    const Reduced reduced = Reduce(request_);
    out_.tokens = reduced.tokens;
    out_.from = reduced.from;
    out_.to = reduced.to;
    const auto from =
        AxesOfServer(*request_.from.plan, out_.from.mode, request_.from.kinds);
    const auto to =
        AxesOfServer(*request_.to.plan, out_.to.mode, request_.to.kinds);
    if (!from || !to) {
      findings_.Add(code::kUsage, {},
                    "the specs of attention divide an axis in two ways that "
                    "have no common factors");
      return std::nullopt;
    }
    if (!Fits(*from, request_.from) || !Fits(*to, request_.to)) {
      return std::nullopt;
    }
    std::vector<kv::Kind> kinds = request_.from.kinds;
    std::vector<int64_t> queries;
    for (size_t i = 0; i < kinds.size(); ++i) {
      kinds[i].is.window = WindowOf(request_, kinds[i], reduced);
      mapped_.push_back(kinds[i]);
      std::string why = WhyNotRun(request_.from.kinds, i, out_.from, out_.to);
      if (!why.empty()) kinds[i].is.layers.clear();
      queries.push_back(why.empty() ? QueriesOf(kinds[i], i, *from, *to) : 1);
      out_.kinds.push_back({mapped_.back(), 0, {}, std::move(why)});
    }
    const TinyModel model(kinds, queries, request_.seed);
    for (size_t i = 0; i < kinds.size(); ++i) {
      out_.kinds[i].queries = model.Queries(i);
      out_.kinds[i].widths = model.Widths(i);
    }
    if (!Fits(*from, request_.from, &model) ||
        !Fits(*to, request_.to, &model) || !Judge(model, *from, *to)) {
      return std::nullopt;
    }
    return std::move(out_);
  }

 private:
  // Returns whether the run is small enough. Without the model, considers only
  // what is known before it is made.
  bool Fits(const ServerAxes& axes, const HandoverSide& side,
            const TinyModel* model = nullptr) {
    Size rows = 0, products = 0;
    for (size_t i = 0; model != nullptr && i < model->kinds().size(); ++i) {
      const kv::Kind& kind = model->kinds()[i];
      const Size each = Size(kv::CountOf(kind.is.layers)) * out_.tokens;
      rows += each * std::ssize(side.side.holders) *
              (kind.is.heads / axes.HeadParts(i));
      products += each * out_.tokens * model->Queries(i);
    }
    if (out_.tokens <= kMostTokens && axes.mesh.devices <= kMostDevices &&
        rows.value() <= kMostRows && products.value() <= kMostProducts) {
      return true;
    }
    findings_.Add(
        code::kLimit, side.plan->mesh_place,
        "the handover of " + Counted(out_.tokens, "token") + " on " +
            Counted(axes.mesh.devices, "device") +
            " is too large to run: at most " + CountText(kMostTokens) +
            " tokens, " + CountText(kMostDevices) + " devices and " +
            CountText(kMostRows) + " rows are run",
        "give pages that have a common factor, fewer devices, or a request of "
        "few tokens with `--tokens`; `shardc kv` proves maps of any size");
    return false;
  }

  bool Judge(const TinyModel& model, const ServerAxes& from,
             const ServerAxes& to) {
    kv::Side source_side = request_.from.side;
    kv::Side destination_side = request_.to.side;
    source_side.settings = out_.from;
    destination_side.settings = out_.to;
    kv::MapSettings settings = request_.settings;
    settings.tokens = out_.tokens;
    auto map = kv::MakeMap(mapped_, source_side, destination_side, settings,
                           findings_);
    if (!map) return false;
    for (const std::string& why : map->refused) out_.faults.Add(why);
    if (request_.seam.map) request_.seam.map(*map);
    const int64_t capacity = out_.tokens + kDecodedTokens;
    KvServer source(model, *request_.from.plan, from, out_.from, "source",
                    out_.tokens, capacity, out_.faults);
    KvServer destination(model, *request_.to.plan, to, out_.to, "destination",
                         out_.tokens, capacity, out_.faults);
    DenseServer dense(model, out_.from);
    SetAllowed(model);
    std::optional<int64_t> layer;
    out_.prefill_error =
        Difference(model, source.Run(0, out_.tokens), dense.Run(0, out_.tokens),
                   out_.allowed, layer);
    source.DropOldTokens();
    source.CheckReplicas();
    Copy(*map, model, source, destination);
    destination.CheckRows();
    dense.Convert(out_.to);
    out_.decode_error = 0;
    for (int64_t i = 0; i < kDecodedTokens; ++i) {
      const auto error =
          Difference(model, destination.Run(out_.tokens + i, 1),
                     dense.Run(out_.tokens + i, 1), out_.allowed, out_.layer);
      out_.decode_error =
          error && out_.decode_error
              ? std::optional(std::max(*error, *out_.decode_error))
              : std::nullopt;
    }
    destination.CheckReplicas();
    return true;
  }

  // Sums in another order differ by less than 1e-12. A number of 24 bits (a
  // float32, or the scale of an int8 row) may then be rounded to its neighbour.
  // That a number of fewer bits is has a probability of less than 1e-12.
  void SetAllowed(const TinyModel& model) {
    out_.allowed = 1e-12;
    for (const kv::Kind& kind : model.kinds()) {
      if (kind.is.layers.empty()) continue;
      for (const kv::SideSettings* side : {&out_.from, &out_.to}) {
        const Dtype dtype = DtypeOf(kind, *side);
        if (dtype == Dtype::kF32 || dtype == Dtype::kI8) out_.allowed = 1e-6;
      }
    }
  }

  void Copy(const kv::Map& map, const TinyModel& model, KvServer& source,
            KvServer& destination) {
    for (const kv::Pair& pair : map.pairs) {
      ++out_.pairs;
      for (const kv::Piece& piece : pair.pieces) {
        if (model.kinds()[piece.kind].is.layers.empty()) continue;
        for (const LayerRange& range : piece.layers) {
          for (int64_t layer = range.first; layer < range.end; ++layer) {
            CopyLayer(pair, piece, layer, source, destination);
          }
        }
      }
    }
  }

  void CopyLayer(const kv::Pair& pair, const kv::Piece& piece, int64_t layer,
                 KvServer& source, KvServer& destination) {
    const int64_t end = std::min(piece.range.end, out_.tokens + kDecodedTokens);
    for (int64_t token = piece.range.first; token < end; ++token) {
      if (source.PartOf(token) != piece.from_part ||
          destination.PartOf(token) != piece.to_part) {
        continue;
      }
      for (int64_t head = 0; head < piece.heads.count(); ++head) {
        CopiedRow row{
            pair.from,
            pair.to,
            layer,
            layer,
            source.PlaceOf(piece.kind, token, piece.from_head + head),
            destination.PlaceOf(piece.kind, token, piece.to_head + head)};
        if (request_.seam.row) request_.seam.row(piece, row);
        CopyOne(piece, row, source, destination);
      }
    }
  }

  void CopyOne(const kv::Piece& piece, const CopiedRow& row, KvServer& source,
               KvServer& destination) {
    const auto place = [&](std::string_view side, int64_t device, int64_t layer,
                           const RowPlace& at) {
      return "device " + CountText(device) + " of the " + std::string(side) +
             ", layer " + CountText(layer) + " (`" +
             mapped_[piece.kind].Name() + "`), page " + CountText(at.page) +
             ", token " + CountText(at.offset) + " of the page, local head " +
             CountText(at.head);
    };
    const CacheMemory* from = source.Find(row.from, piece.kind, row.from_layer);
    CacheMemory* to = destination.Find(row.to, piece.kind, row.to_layer);
    if (from == nullptr || !from->Has(row.read) || !from->IsWritten(row.read)) {
      out_.faults.Add("the map reads " +
                      place("source", row.from, row.from_layer, row.read) +
                      ", where there is no row");
      return;
    }
    const std::string written =
        place("destination", row.to, row.to_layer, row.written);
    if (to == nullptr || !to->Has(row.written)) {
      out_.faults.Add("the map writes to " + written + ", which is not there");
      return;
    }
    if (to->IsWritten(row.written)) {
      out_.faults.Add("the map writes twice to " + written);
    }
    to->CopyFrom(*from, row.read, row.written);
    ++out_.rows;
  }

  const HandoverRequest& request_;
  Findings& findings_;
  Handover out_;
  // The kinds with the windows of the run, with those that are not run.
  std::vector<kv::Kind> mapped_;
};

}  // namespace

bool Handover::Differs() const {
  return faults.count > 0 || !prefill_error || *prefill_error > allowed ||
         !decode_error || *decode_error > allowed;
}

bool Handover::Complete() const {
  return std::all_of(kinds.begin(), kinds.end(), [](const HandoverKind& kind) {
    return kind.not_run.empty();
  });
}

bool Handover::NothingRan() const { return rows == 0; }

std::optional<Handover> RunHandover(const HandoverRequest& request,
                                    Findings& findings) {
  return Runner(request, findings).Run();
}

}  // namespace shardc::verify
