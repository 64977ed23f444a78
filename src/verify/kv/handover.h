// Runs a handover: prefill on the source, the copies that a map states, and
// decode on the destination, compared with a model that has one cache.
#ifndef SHARDC_VERIFY_KV_HANDOVER_H_
#define SHARDC_VERIFY_KV_HANDOVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/machine/collectives.h"
#include "exec/machine/machine.h"
#include "kv/map.h"
#include "kv/side.h"
#include "model/dtype.h"
#include "plan/plan_table.h"
#include "source/finding.h"
#include "source/size.h"
#include "verify/kv/model.h"

namespace shardc::verify {

// One side of a handover on a simulated mesh: the devices of the data parallel
// rank that has the request, each with its own memory.

// The memory in which a device has one kind of one layer.
struct MemoryLayout {
  int64_t page = 1;  // tokens of a page
  int64_t pages = 1;
  int64_t heads = 1;  // of the device
  kv::Order order = kv::Order::kNhd;
  // Whether a page has the tensors next to each other. Otherwise each tensor
  // has memory of its own.
  bool joint = false;
  std::vector<int64_t> widths;  // of a row, indexed by tensor
  Dtype dtype = Dtype::kF64;
};

// The place of the rows of one token and one head. `order` is the order that
// the reader or writer takes the pages to have.
struct RowPlace {
  int64_t page = 0, offset = 0, head = 0;
  kv::Order order = kv::Order::kNhd;
  bool operator==(const RowPlace&) const = default;
};

class CacheMemory {
 public:
  // Makes memory that has NaN everywhere.
  explicit CacheMemory(MemoryLayout layout);

  // Returns whether the place is inside of the memory. The other functions need
  // that.
  bool Has(const RowPlace& at) const;
  bool IsWritten(const RowPlace& at) const;
  int64_t CountWritten() const;  // of all places
  Numbers Read(const RowPlace& at, size_t tensor) const;
  void Write(const RowPlace& at, size_t tensor, const Numbers& row);
  void Erase(const RowPlace& at);
  // Copies the rows of all tensors. Numbers are copied as they are stored, or
  // converted if the dtypes differ.
  void CopyFrom(const CacheMemory& from, const RowPlace& at,
                const RowPlace& to);
  // Returns whether all numbers have the same bits.
  bool SameBits(const CacheMemory& other) const;

 private:
  // Returns the index of the first number that is stored for a row. In int8,
  // the scale follows the integers.
  size_t First(const RowPlace& at, size_t tensor) const;

  MemoryLayout layout_;  // with one more number in the rows of int8
  int64_t width_ = 0;    // of the rows of all tensors
  Numbers numbers_;
};

// The tokens of a page if the settings do not state them.
inline constexpr int64_t kUsualPage = 4;

// The axes of the simulated mesh that shard the cache, from the specs of
// attention in a plan. They are found without the code that makes the map.
struct ServerAxes {
  Mesh mesh;
  AxisGroup batch, tokens;
  // Indexed by kind: the axes that shard its heads, and the other axes of the
  // query's heads, over whose devices each head is replicated.
  std::vector<AxisGroup> heads, rest;

  int64_t HeadParts(size_t kind) const;
  int64_t RestParts(size_t kind) const;
};
// Returns nullopt if the axes cannot be divided as the specs need it.
std::optional<ServerAxes> AxesOfServer(const ReadPlan& plan, Mode mode,
                                       const std::vector<kv::Kind>& kinds);

// What was wrong, of which the first few messages are kept.
struct Faults {
  std::vector<std::string> first;
  int64_t count = 0;

  void Add(std::string what);
};

class KvServer {
 public:
  // `tokens` is the length of the request when the cache is handed over. The
  // server has room for `capacity` tokens. All parameters but the last must
  // outlive the server. `name` is "source" or "destination".
  KvServer(const TinyModel& model, const ReadPlan& plan, const ServerAxes& axes,
           const kv::SideSettings& settings, std::string name, int64_t tokens,
           int64_t capacity, Faults& faults);

  // Runs the model on consecutive tokens. Each device writes the rows of its
  // own layers, heads and tokens, and reads only its own memory. Returns the
  // vectors after each layer.
  std::vector<Numbers> Run(int64_t first, int64_t count);
  // Erases the rows of tokens that a layer does not keep.
  void DropOldTokens();
  // Adds a fault for each memory that does not have exactly the rows of the
  // request that it has to have.
  void CheckRows();
  // Adds a fault if devices that have the same part differ in bits.
  void CheckReplicas();

  // Returns the memory of a device, or null if it has no such layer.
  CacheMemory* Find(int64_t device, size_t kind, int64_t layer);
  // Returns the part of sharded tokens that has a token, and the place of the
  // token's rows on a device of the part, of which `head` is a local number.
  int64_t PartOf(int64_t token) const { return part_[AsIndex(token)]; }
  RowPlace PlaceOf(size_t kind, int64_t token, int64_t head) const;

 private:
  friend class DeviceRows;

  // Calls `f` for each row of the request, of a token and a head, that the
  // device has before old tokens are dropped.
  void EachRow(
      int device, size_t kind,
      const std::function<void(int64_t token, const RowPlace&)>& f) const;
  bool HasLayer(int device, int64_t layer) const;
  LayerRange HeadsOf(int device, size_t kind) const;
  // Returns the first token that a layer keeps.
  int64_t FirstKept(size_t kind) const;
  std::string Text(int64_t device, size_t kind, int64_t layer) const;
  // Adds the output of the layer's heads to `x` on each device that has it.
  void RunLayer(exec::Machine& machine, const TinyModel::Layer& layer,
                const std::vector<int>& devices, int64_t first, int64_t count,
                exec::PerDevice& x);

  const TinyModel& model_;
  const ReadPlan& plan_;
  const ServerAxes& axes_;
  const kv::SideSettings& settings_;
  std::string name_;
  int64_t tokens_;
  Faults& faults_;
  exec::SimMesh mesh_;
  std::vector<int64_t> part_, index_;  // indexed by token
  // Indexed by device: memories by kind and layer.
  std::vector<std::map<std::pair<size_t, int64_t>, CacheMemory>> memories_;
};

struct HandoverSide {
  const ReadPlan* plan = nullptr;
  // Both sides have the same kinds in the same order.
  std::vector<kv::Kind> kinds;
  kv::Side side;
};

// The copy of one token and one head.
struct CopiedRow {
  int64_t from = 0, to = 0;  // devices
  int64_t from_layer = 0, to_layer = 0;
  RowPlace read, written;
  bool operator==(const CopiedRow&) const = default;
};

// Steps that tests replace to inject faults.
struct HandoverSeam {
  std::function<void(kv::Map&)> map;
  std::function<void(const kv::Piece&, CopiedRow&)> row;
};

struct HandoverRequest {
  HandoverSide from, to;
  kv::MapSettings settings;
  uint64_t seed = 0;
  HandoverSeam seam = {};
};

// The tokens that are decoded after the handover.
inline constexpr int64_t kDecodedTokens = 3;

struct HandoverKind {
  kv::Kind kind;                // with the window of the run
  int64_t queries = 0;          // query heads of the model
  std::vector<int64_t> widths;  // of the rows of each tensor
  // Why the kind's layers were not run; empty if they were.
  std::string not_run;
};

struct Handover {
  // The sizes of the run. Layers, heads and devices are those of the plans.
  int64_t tokens = 0;
  kv::SideSettings from, to;
  std::vector<HandoverKind> kinds;
  int64_t pairs = 0, rows = 0;  // that were copied
  // The largest difference of a number of the vectors after any layer, divided
  // by the largest number of the layer's vectors (at least 1). Nullopt if a
  // number was read that nothing had written.
  std::optional<double> prefill_error, decode_error;
  double allowed = 0;
  // The first layer after which a decoded token differs.
  std::optional<int64_t> layer;
  Faults faults;

  bool Differs() const;
  // Returns whether the layers of all kinds were run.
  bool Complete() const;
  bool NothingRan() const;
};

// Runs the map of MakeMap() at reduced sizes: few tokens, small pages and small
// heads. Returns nullopt after a finding if the run would be too large.
std::optional<Handover> RunHandover(const HandoverRequest& request,
                                    Findings& findings);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_KV_HANDOVER_H_
