// Runs a handover: prefill on the source, the copies that a map states, and
// decode on the destination, compared with a model that has one cache.
#ifndef SHARDC_VERIFY_KV_HANDOVER_H_
#define SHARDC_VERIFY_KV_HANDOVER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kv/map.h"
#include "kv/side.h"
#include "plan/view.h"
#include "source/finding.h"
#include "verify/kv/server.h"

namespace shardc::verify {

struct HandoverSide {
  const PlanView* plan = nullptr;
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
