// Runs the small model on a simulated mesh. All devices of a pipeline rank have
// the vectors of the tokens. For each layer of the rank, a device
//
//   1. writes the rows of its heads and of its tokens to its memory,
//   2. computes its query heads from the rows in its memory,
//   3. if tokens are sharded, merges the outputs of the parts, weighted by
//      their sums of exponentials, and
//   4. multiplies them by the output matrices of its query heads.
//
// The products are summed over all axes of heads, and the ranks of the layer
// send the vectors to the other ranks. For example, 2 KV heads and 8 query
// heads on tp:4 as `tp:(1)2` and `tp:(2)2`: device 3 has KV head 1 and computes
// the query heads 6 and 7.
//
// Addresses of rows in pages. For example, a device with 2 heads, pages of 3
// tokens and keys and values of 4 numbers has the key of token 1 of head 1 in
// page 0 at
//
//   HND   number (1 * 3 + 1) * 4 = 16
//   NHD   number (1 * 2 + 1) * 4 = 12
//
// Its value is 2 * 3 * 4 numbers later if the page is joint, else after the
// keys of all pages. The scale of an int8 row follows the row's integers; a
// server has it elsewhere, in the same order.
#include "verify/kv/handover.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>

#include "dense/array.h"
#include "dense/narrow.h"
#include "model/mesh_layout.h"
#include "source/list.h"
#include "source/wording.h"

namespace shardc::verify {
namespace {

constexpr size_t kMostFaults = 8;

constexpr double kUnwritten = std::numeric_limits<double>::quiet_NaN();

int64_t PartsOf(const Mesh& mesh, const AxisGroup& axes) {
  return mesh.Parts(axes).value_or(1);
}

// Returns the axes of more than one device that no earlier dimension has.
AxisGroup NewAxes(const Mesh& mesh, const AxisGroup& axes, AxisGroup& seen) {
  AxisGroup out;
  for (const std::string& axis : axes) {
    const bool known = IsAmong(axis, seen);
    if (known || mesh.SizeOf(axis) == 1) continue;
    seen.push_back(axis);
    out.push_back(axis);
  }
  return out;
}

exec::Buffer Filled(int64_t size, double value) {
  exec::Buffer out = exec::Buffer::Zeros({size}, Dtype::kF64);
  out.wide.assign(AsIndex(size), value);
  return out;
}

}  // namespace

CacheMemory::CacheMemory(MemoryLayout layout) : layout_(std::move(layout)) {
  for (int64_t& width : layout_.widths) {
    if (layout_.dtype == Dtype::kI8) ++width;
    width_ += width;
  }
  numbers_.assign(
      AsIndex(layout_.pages * layout_.page * layout_.heads * width_),
      kUnwritten);
}

bool CacheMemory::Has(const RowPlace& at) const {
  return at.page >= 0 && at.page < layout_.pages && at.offset >= 0 &&
         at.offset < layout_.page && at.head >= 0 && at.head < layout_.heads;
}

size_t CacheMemory::First(const RowPlace& at, size_t tensor) const {
  const int64_t rows = layout_.page * layout_.heads;
  const int64_t width = layout_.widths[tensor];
  int64_t before = 0;
  for (size_t t = 0; t < tensor; ++t) before += layout_.widths[t];
  const int64_t page =
      layout_.joint ? at.page * rows * width_ + rows * before
                    : layout_.pages * rows * before + at.page * rows * width;
  const int64_t row = at.order == kv::Order::kHnd
                          ? at.head * layout_.page + at.offset
                          : at.offset * layout_.heads + at.head;
  return AsIndex(page + row * width);
}

bool CacheMemory::IsWritten(const RowPlace& at) const {
  return !std::isnan(numbers_[First(at, 0)]);
}

int64_t CacheMemory::CountWritten() const {
  int64_t out = 0;
  for (int64_t page = 0; page < layout_.pages; ++page) {
    for (int64_t offset = 0; offset < layout_.page; ++offset) {
      for (int64_t head = 0; head < layout_.heads; ++head) {
        if (IsWritten({page, offset, head, layout_.order})) ++out;
      }
    }
  }
  return out;
}

Numbers CacheMemory::Read(const RowPlace& at, size_t tensor) const {
  const auto* const first = &numbers_[First(at, tensor)];
  Numbers out(first, first + layout_.widths[tensor]);
  if (layout_.dtype != Dtype::kI8) return out;
  const auto scale = static_cast<float>(out.back());
  out.pop_back();
  for (double& x : out) {
    if (!std::isnan(x)) x = dense::FromInt8(static_cast<int8_t>(x), scale);
  }
  return out;
}

void CacheMemory::Write(const RowPlace& at, size_t tensor, const Numbers& row) {
  auto* const to = &numbers_[First(at, tensor)];
  if (layout_.dtype != Dtype::kI8) {
    const Numbers rounded = AsStored(layout_.dtype, row);
    std::copy(rounded.begin(), rounded.end(), to);
    return;
  }
  const std::vector<float> floats(row.begin(), row.end());
  std::vector<int8_t> integers(row.size());
  to[row.size()] = dense::ToInt8(floats, integers);
  std::copy(integers.begin(), integers.end(), to);
}

void CacheMemory::Erase(const RowPlace& at) {
  for (size_t t = 0; t < layout_.widths.size(); ++t) {
    std::fill_n(&numbers_[First(at, t)], layout_.widths[t], kUnwritten);
  }
}

void CacheMemory::CopyFrom(const CacheMemory& from, const RowPlace& at,
                           const RowPlace& to) {
  for (size_t t = 0; t < layout_.widths.size(); ++t) {
    if (from.layout_.dtype != layout_.dtype) {
      Write(to, t, from.Read(at, t));
      continue;
    }
    std::copy_n(&from.numbers_[from.First(at, t)], layout_.widths[t],
                &numbers_[First(to, t)]);
  }
}

bool CacheMemory::SameBits(const CacheMemory& other) const {
  return numbers_.size() == other.numbers_.size() &&
         (numbers_.empty() ||
          std::memcmp(numbers_.data(), other.numbers_.data(),
                      numbers_.size() * sizeof(double)) == 0);
}

int64_t ServerAxes::HeadParts(size_t kind) const {
  return PartsOf(mesh, heads[kind]);
}
int64_t ServerAxes::RestParts(size_t kind) const {
  return PartsOf(mesh, rest[kind]);
}

std::optional<ServerAxes> AxesOfServer(const ReadPlan& plan, Mode mode,
                                       const std::vector<kv::Kind>& kinds) {
  Spec key, query;
  for (const ReadActivation& one : plan.attention) {
    if (one.mode == mode && one.tensor == "key") key = one.spec;
    if (one.mode == mode && one.tensor == "query") query = one.spec;
  }
  std::vector<Spec> specs = {key, query};
  for (const kv::Kind& kind : kinds) {
    Spec& own = specs.emplace_back(Spec{AxesAt(key, 2)});
    for (const auto& [of, axes] : kind.is.axes) {
      if (of == mode) own = {axes};
    }
  }
  auto refined = RefinedMesh(plan.mesh, specs);
  if (!refined) return std::nullopt;
  ServerAxes out;
  out.mesh = std::move(*refined);
  for (Spec& spec : specs) spec = RefinedSpec(out.mesh, spec);
  AxisGroup seen;
  out.batch = NewAxes(out.mesh, AxesAt(specs[0], 0), seen);
  out.tokens = NewAxes(out.mesh, AxesAt(specs[0], 1), seen);
  for (size_t i = 0; i < kinds.size(); ++i) {
    AxisGroup others = seen;
    const bool state = !kinds[i].IsPaged();
    // The devices of the query's heads compute states.
    const Spec& spec = state ? specs[1] : specs[i + 2];
    out.heads.push_back(
        kinds[i].IsReplicated()
            ? AxisGroup()
            : NewAxes(out.mesh, AxesAt(spec, state ? 2 : 0), others));
    out.rest.push_back(state ? AxisGroup()
                             : NewAxes(out.mesh, AxesAt(specs[1], 2), others));
  }
  return out;
}

void Faults::Add(std::string what) {
  if (first.size() < kMostFaults) first.push_back(std::move(what));
  ++count;
}

// The rows of one device by the numbers of the model.
class DeviceRows : public Rows {
 public:
  DeviceRows(KvServer& server, int device) : server_(server), device_(device) {}

  Numbers Read(const RowId& row) const override {
    return Memory(row).Read(PlaceOf(row), row.tensor);
  }
  void Write(const RowId& row, const Numbers& numbers) override {
    const bool state =
        server_.model_.kinds()[row.kind].is.kind == KvKindName::kState;
    if (!state && row.tensor == 0 && Memory(row).IsWritten(PlaceOf(row))) {
      server_.faults_.Add(server_.Text(device_, row.kind, row.layer) +
                          " has something in the place of token " +
                          CountText(row.token) + ", which is new");
    }
    Memory(row).Write(PlaceOf(row), row.tensor, numbers);
  }

 private:
  CacheMemory& Memory(const RowId& row) const {
    return server_.memories_[AsIndex(device_)].at({row.kind, row.layer});
  }
  RowPlace PlaceOf(const RowId& row) const {
    return server_.PlaceOf(row.kind, row.token,
                           row.head - server_.HeadsOf(device_, row.kind).first);
  }

  KvServer& server_;
  int device_;
};

KvServer::KvServer(const TinyModel& model, const ReadPlan& plan,
                   const ServerAxes& axes, const kv::SideSettings& settings,
                   std::string name, int64_t tokens, int64_t capacity,
                   Faults& faults)
    : model_(model),
      plan_(plan),
      axes_(axes),
      settings_(settings),
      name_(std::move(name)),
      tokens_(tokens),
      faults_(faults),
      mesh_(axes.mesh) {
  const int64_t parts = PartsOf(axes.mesh, axes.tokens);
  const int64_t given = settings.interleave.value_or(0);
  const int64_t block = given > 0 ? given : CeilDiv(tokens, parts);
  std::vector<int64_t> count(AsIndex(parts));
  for (int64_t token = 0; token < capacity; ++token) {
    part_.push_back(parts == 1 ? 0 : token / block % parts);
    index_.push_back(count[AsIndex(part_.back())]++);
  }
  const int64_t most = *std::max_element(count.begin(), count.end());
  memories_.resize(AsIndex(mesh_.devices()));
  for (int device = 0; device < mesh_.devices(); ++device) {
    if (mesh_.Index(device, axes.batch) != settings.dp_rank) continue;
    for (size_t kind = 0; kind < model.kinds().size(); ++kind) {
      const kv::Kind& is = model.kinds()[kind];
      MemoryLayout layout;
      layout.page = is.IsPaged() ? settings.page.value_or(kUsualPage) : most;
      layout.pages = CeilDiv(most, layout.page);
      layout.heads = HeadsOf(device, kind).count();
      layout.order = settings.order.value_or(kv::Order::kNhd);
      layout.joint = settings.joint;
      layout.widths = model.Widths(kind);
      layout.dtype = DtypeOf(is, settings);
      for (const LayerRange& range : is.is.layers) {
        for (int64_t layer = range.first; layer < range.end; ++layer) {
          if (!HasLayer(device, layer)) continue;
          memories_[AsIndex(device)].emplace(std::pair(kind, layer), layout);
        }
      }
    }
  }
}

bool KvServer::HasLayer(int device, int64_t layer) const {
  if (!plan_.stages) return true;
  const PlanStages& stages = *plan_.stages;
  int64_t end = 0;
  for (const PlanStage& stage : stages.of) {
    end = std::max(end, stage.layers.end);
  }
  // Draft layers are on the ranks of the last layer.
  layer = std::min(layer, end - 1);
  const int64_t rank = mesh_.Coordinate(device, stages.axis);
  for (const PlanStage& stage : stages.of) {
    if (layer < stage.layers.first || layer >= stage.layers.end) continue;
    for (const int32_t one : stage.ranks) {
      if (one == rank) return true;
    }
  }
  return false;
}

LayerRange KvServer::HeadsOf(int device, size_t kind) const {
  const int64_t each = model_.kinds()[kind].is.heads / axes_.HeadParts(kind);
  const int64_t first = mesh_.Index(device, axes_.heads[kind]) * each;
  return {first, first + each};
}

int64_t KvServer::FirstKept(size_t kind) const {
  const kv::Kind& is = model_.kinds()[kind];
  return is.is.kind == KvKindName::kState ? 0 : tokens_ - is.Kept(tokens_);
}

std::string KvServer::Text(int64_t device, size_t kind, int64_t layer) const {
  return "device " + CountText(device) + " of the " + name_ + ", layer " +
         CountText(layer) + " (`" + model_.kinds()[kind].Name() + "`),";
}

CacheMemory* KvServer::Find(int64_t device, size_t kind, int64_t layer) {
  if (device < 0 || device >= std::ssize(memories_)) return nullptr;
  auto& memories = memories_[AsIndex(device)];
  const auto at = memories.find({kind, layer});
  return at == memories.end() ? nullptr : &at->second;
}

RowPlace KvServer::PlaceOf(size_t kind, int64_t token, int64_t head) const {
  const kv::Kind& is = model_.kinds()[kind];
  const auto order = settings_.order.value_or(kv::Order::kNhd);
  if (!is.IsPaged()) return {0, token, head, order};
  const int64_t page = settings_.page.value_or(kUsualPage);
  const int64_t index = index_[AsIndex(token)];
  return {index / page, index % page, head, order};
}

std::vector<Numbers> KvServer::Run(int64_t first, int64_t count) {
  exec::Machine machine(mesh_);
  exec::PerDevice x(AsIndex(mesh_.devices()), Filled(count * kHidden, 0));
  for (exec::Buffer& one : x) one.wide = model_.Embed(first, count).x;
  std::vector<Numbers> out;
  for (const TinyModel::Layer& layer : model_.layers()) {
    std::vector<int> devices;
    for (int device = 0; device < mesh_.devices(); ++device) {
      if (Find(device, layer.main, layer.number)) devices.push_back(device);
    }
    if (devices.empty()) {
      faults_.Add("no device of the " + name_ + " has layer " +
                  CountText(layer.number));
      return {};
    }
    RunLayer(machine, layer, devices, first, count, x);
    const exec::Buffer& one = x[AsIndex(devices.front())];
    for (const int device : devices) {
      if (exec::BitEqual(one, x[AsIndex(device)])) continue;
      faults_.Add(Text(device, layer.main, layer.number) +
                  " computes other bits than device " +
                  CountText(devices.front()));
    }
    out.push_back(one.wide);
    if (!plan_.stages) continue;
    const std::string& axis = plan_.stages->axis;
    x = exec::Broadcast(machine, {axis}, x,
                        mesh_.Coordinate(devices.front(), axis), "hidden");
  }
  return out;
}

void KvServer::RunLayer(exec::Machine& machine, const TinyModel::Layer& layer,
                        const std::vector<int>& devices, int64_t first,
                        int64_t count, exec::PerDevice& x) {
  const size_t kind = layer.main;
  const int64_t width = model_.ValueWidth(kind) * count;
  const int64_t each = model_.Queries(kind) / axes_.HeadParts(kind);
  const int64_t own = each / axes_.RestParts(kind);
  const auto all = AsIndex(mesh_.devices());
  exec::PerDevice out(all, Filled(own * width, 0));
  exec::PerDevice lse(all, Filled(own * count, -dense::kInfinity));
  const auto begin = [&](int device) {
    return mesh_.Index(device, axes_.heads[kind]) * each +
           mesh_.Index(device, axes_.rest[kind]) * own;
  };
  for (const int device : devices) {
    const int64_t part = mesh_.Index(device, axes_.tokens);
    const TinyModel::Part mine{
        HeadsOf(device, kind),
        {begin(device), begin(device) + own},
        [&](int64_t token) { return PartOf(token) == part; }};
    DeviceRows rows(*this, device);
    const auto heads = model_.Run(
        layer, Normalised({first, count, x[AsIndex(device)].wide}), mine, rows);
    for (int64_t q = 0; q < own; ++q) {
      const HeadOutput& head = heads[AsIndex(q)];
      std::copy(head.out.begin(), head.out.end(),
                out[AsIndex(device)].wide.begin() + q * width);
      std::copy(head.lse.begin(), head.lse.end(),
                lse[AsIndex(device)].wide.begin() + q * count);
    }
  }
  if (!axes_.tokens.empty()) {
    const exec::PerDevice top = exec::AllReduce(machine, axes_.tokens, lse,
                                                exec::Reduce::kMax, "largest");
    const auto value = AsIndex(model_.ValueWidth(kind));
    for (const int device : devices) {
      Numbers& weights = lse[AsIndex(device)].wide;
      Numbers& parts = out[AsIndex(device)].wide;
      for (size_t i = 0; i < weights.size(); ++i) {
        weights[i] = std::exp(weights[i] - top[AsIndex(device)].wide[i]);
        for (size_t d = 0; d < value; ++d) parts[i * value + d] *= weights[i];
      }
    }
    out = exec::AllReduce(machine, axes_.tokens, out, exec::Reduce::kSum,
                          "outputs");
    lse = exec::AllReduce(machine, axes_.tokens, lse, exec::Reduce::kSum,
                          "weights");
    for (const int device : devices) {
      Numbers& merged = out[AsIndex(device)].wide;
      for (size_t i = 0; i < merged.size(); ++i) {
        merged[i] /= lse[AsIndex(device)].wide[i / value];
      }
    }
  }
  exec::PerDevice sums(all, Filled(count * kHidden, 0));
  for (const int device : devices) {
    const Numbers& mine = out[AsIndex(device)].wide;
    for (int64_t q = 0; q < own; ++q) {
      model_.Project(
          layer, begin(device) + q,
          Numbers(mine.begin() + q * width, mine.begin() + (q + 1) * width),
          sums[AsIndex(device)].wide);
    }
  }
  AxisGroup axes = axes_.heads[kind];
  axes.insert(axes.end(), axes_.rest[kind].begin(), axes_.rest[kind].end());
  sums = exec::AllReduce(machine, axes, sums, exec::Reduce::kSum, "attention");
  for (const int device : devices) {
    exec::Accumulate(sums[AsIndex(device)], exec::Reduce::kSum,
                     x[AsIndex(device)]);
  }
}

void KvServer::EachRow(
    int device, size_t kind,
    const std::function<void(int64_t token, const RowPlace&)>& f) const {
  const bool state = model_.kinds()[kind].is.kind == KvKindName::kState;
  const int64_t part = mesh_.Index(device, axes_.tokens);
  const int64_t heads = HeadsOf(device, kind).count();
  for (int64_t token = 0; token < (state ? 1 : tokens_); ++token) {
    if (PartOf(token) != part) continue;
    for (int64_t head = 0; head < heads; ++head) {
      f(token, PlaceOf(kind, token, head));
    }
  }
}

void KvServer::DropOldTokens() {
  for (int device = 0; device < mesh_.devices(); ++device) {
    for (auto& [at, memory] : memories_[AsIndex(device)]) {
      const int64_t first = FirstKept(at.first);
      CacheMemory& from = memory;
      EachRow(device, at.first, [&](int64_t token, const RowPlace& place) {
        if (token < first) from.Erase(place);
      });
    }
  }
}

void KvServer::CheckRows() {
  for (int device = 0; device < mesh_.devices(); ++device) {
    for (const auto& [at, memory] : memories_[AsIndex(device)]) {
      const int64_t first = FirstKept(at.first);
      const CacheMemory& in = memory;
      int64_t needed = 0, lacking = 0;
      EachRow(device, at.first, [&](int64_t token, const RowPlace& place) {
        if (token < first) return;
        ++needed;
        if (!in.IsWritten(place)) ++lacking;
      });
      const int64_t more = memory.CountWritten() - (needed - lacking);
      if (lacking == 0 && more == 0) continue;
      faults_.Add(Text(device, at.first, at.second) + " lacks " +
                  CountText(lacking) + " of its " + Counted(needed, "row") +
                  ", and has " + CountText(more) + " in other places");
    }
  }
}

void KvServer::CheckReplicas() {
  std::map<std::tuple<size_t, int64_t, int64_t, int64_t>,
           std::pair<int, const CacheMemory*>>
      seen;
  for (int device = 0; device < mesh_.devices(); ++device) {
    for (const auto& [at, memory] : memories_[AsIndex(device)]) {
      const auto [first, fresh] = seen.try_emplace(
          {at.first, at.second, mesh_.Index(device, axes_.heads[at.first]),
           mesh_.Index(device, axes_.tokens)},
          device, &memory);
      if (fresh || memory.SameBits(*first->second.second)) continue;
      faults_.Add(Text(device, at.first, at.second) +
                  " has other bits than its replica, device " +
                  CountText(first->second.first));
    }
  }
}

}  // namespace shardc::verify
