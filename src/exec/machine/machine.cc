// The simulated mesh: device ids and coordinates, the groups of devices over
// axes, and the machine that runs a function on every device.
#include "exec/machine/machine.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "model/mesh_layout.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::exec {

Machine::Machine(const SimMesh& mesh, int threads, Seams seams)
    : mesh_(&mesh), seams_(std::move(seams)) {
  const int workers = std::min(threads, mesh.end_held() - mesh.first_held());
  if (workers > 1) pool_ = std::make_unique<ThreadPool>(workers);
}

void Machine::Local(const std::function<void(int)>& body) const {
  const int first = mesh_->first_held(), end = mesh_->end_held();
  if (pool_ == nullptr) {
    for (int device = first; device < end; ++device) body(device);
    return;
  }
  pool_->Run(end - first,
             [&](int64_t held, int) { body(first + static_cast<int>(held)); });
}

// Implements device ids and groups of devices. Ids are row-major: the
// coordinate on an axis is the id divided by the axis's stride, modulo the
// axis's size. A group over a list of axes has the devices that have equal
// coordinates on all other axes. Its devices are in row-major order of the axes
// as listed. For example:
//
//   dp 2, tp 4: device 6 is dp=1 tp=2; groups of dp: 0 4, 1 5, 2 6, 3 7

SimMesh::SimMesh(Mesh mesh, Transport* transport)
    : mesh_(std::move(mesh)), transport_(transport) {
  mesh_.devices = 1;
  for (const MeshAxis& axis : mesh_.axes) mesh_.devices *= axis.size;
  devices_ = static_cast<int>(mesh_.devices);
  coordinates_.reserve(AsIndex(devices_));
  for (int device = 0; device < devices_; ++device) {
    coordinates_.push_back(CoordinatesOf(mesh_, device));
  }
  end_held_ = devices_;
  if (transport_ == nullptr) return;
  const int64_t rank = transport_->rank(), ranks = transport_->ranks();
  first_held_ = static_cast<int>(rank * devices_ / ranks);
  end_held_ = static_cast<int>((rank + 1) * devices_ / ranks);
}

int SimMesh::RankOf(int device) const {
  if (transport_ == nullptr) return 0;
  const int64_t ranks = transport_->ranks();
  return static_cast<int>(((device + 1) * ranks - 1) / devices_);
}

int64_t SimMesh::SizeOf(std::string_view axis) const {
  return mesh_.SizeOf(axis);
}

bool SimMesh::Has(std::string_view axis) const {
  return mesh_.Find(axis).has_value();
}

int64_t SimMesh::Parts(const AxisGroup& axes) const {
  int64_t out = 1;
  for (const std::string& axis : axes) out *= SizeOf(axis);
  return out;
}

int64_t SimMesh::Coordinate(int device, std::string_view axis) const {
  const auto at = mesh_.Find(axis);
  return at ? coordinates_[AsIndex(device)][*at] : 0;
}

int64_t SimMesh::Index(int device, const AxisGroup& axes) const {
  return IndexAlong(mesh_, coordinates_[AsIndex(device)], axes);
}

std::vector<std::vector<int>> SimMesh::Groups(const AxisGroup& axes) const {
  // Members of a group have the same key: the id that a member would have with
  // coordinate 0 on the listed axes.
  std::map<int64_t, size_t> of_key;
  std::vector<std::vector<int>> out;
  for (int device = 0; device < devices_; ++device) {
    std::vector<int64_t> first = coordinates_[AsIndex(device)];
    for (const std::string& axis : axes) {
      if (const auto listed = mesh_.Find(axis)) first[*listed] = 0;
    }
    auto [at, fresh] = of_key.emplace(PositionOf(mesh_, first), out.size());
    if (fresh) out.emplace_back(AsIndex(Parts(axes)), 0);
    out[at->second][AsIndex(Index(device, axes))] = device;
  }
  return out;
}

std::string SimMesh::DeviceText(int device) const {
  std::string out;
  for (const MeshAxis& axis : mesh_.axes) {
    AppendItem(out, " ",
               axis.name + "=" + std::to_string(Coordinate(device, axis.name)));
  }
  return out;
}

// Implements the ledger, the record of bytes sent. It has one entry for each
// collective, in program order. MostSent first adds each device's bytes over
// all entries of one kind of collective. It then returns the maximum over the
// devices. Adding the maxima of the entries would count too much. For example:
//
//   two all_gathers: two devices send 8 and 0 bytes, then 0 and 6
//     ->  maximum 8, not 8 + 6; total 14

void SentBytes::Add(Collective kind, const std::vector<int64_t>& sent) {
  if (std::all_of(sent.begin(), sent.end(),
                  [](int64_t bytes) { return bytes == 0; })) {
    return;
  }
  std::vector<int64_t>& to = by[static_cast<size_t>(kind)];
  to.resize(std::max(to.size(), sent.size()), 0);
  for (size_t d = 0; d < sent.size(); ++d) {
    to[d] = (Size(to[d]) + sent[d]).value();
  }
}

void SentBytes::Add(const SentBytes& other) {
  for (size_t kind = 0; kind < kCollectiveCount; ++kind) {
    Add(static_cast<Collective>(kind), other.by[kind]);
  }
}

int64_t SentBytes::Most(Collective kind) const {
  const std::vector<int64_t>& of = Of(kind);
  return of.empty() ? 0 : *std::max_element(of.begin(), of.end());
}

int64_t SentBytes::Total() const {
  Size out = 0;
  for (const auto& of : by) {
    for (const int64_t sent : of) out += sent;
  }
  return out.value();
}

bool SentBytes::operator==(const SentBytes& other) const {
  for (size_t kind = 0; kind < kCollectiveCount; ++kind) {
    std::vector<int64_t> a = by[kind], b = other.by[kind];
    a.resize(std::max(a.size(), b.size()), 0);
    b.resize(a.size(), 0);
    if (a != b) return false;
  }
  return true;
}

SentBytes Ledger::Sent() const {
  SentBytes out;
  for (const LedgerEntry& entry : entries_) out.Add(entry.kind, entry.sent);
  return out;
}

void Ledger::Record(Collective kind, AxisGroup axes, int64_t group_size,
                    std::vector<int64_t> sent, std::string_view what) {
  entries_.push_back({kind, std::move(axes), group_size, std::move(sent),
                      static_cast<int64_t>(entries_.size()),
                      std::string(what)});
}

void Ledger::Moved(Collective kind, const std::vector<int64_t>& bytes,
                   int64_t crossed) {
  moved_.Add(kind, bytes);
  crossed_ += crossed;
}

void Ledger::AddMoved(const Ledger& other) {
  moved_.Add(other.moved_);
  crossed_ += other.crossed_;
}

int64_t Ledger::MostSent(Collective kind) const {
  std::vector<int64_t> sum;
  for (const LedgerEntry& entry : entries_) {
    if (entry.kind != kind) continue;
    sum.resize(std::max(sum.size(), entry.sent.size()), 0);
    for (size_t d = 0; d < entry.sent.size(); ++d) sum[d] += entry.sent[d];
  }
  return sum.empty() ? 0 : *std::max_element(sum.begin(), sum.end());
}

int64_t Ledger::TotalSent(Collective kind) const {
  int64_t out = 0;
  for (const LedgerEntry& entry : entries_) {
    if (entry.kind != kind) continue;
    for (int64_t bytes : entry.sent) out += bytes;
  }
  return out;
}

int64_t Ledger::TotalSent() const {
  int64_t out = 0;
  for (int64_t bytes : SentByDevice()) out += bytes;
  return out;
}

std::vector<int64_t> Ledger::SentByDevice() const {
  std::vector<int64_t> sum;
  for (const LedgerEntry& entry : entries_) {
    sum.resize(std::max(sum.size(), entry.sent.size()), 0);
    for (size_t d = 0; d < entry.sent.size(); ++d) sum[d] += entry.sent[d];
  }
  return sum;
}

}  // namespace shardc::exec
