// Small models that are written op by op. Together they contain everything that
// an injected fault may change.
#ifndef SHARDC_TESTS_VERIFY_STEP_SOUND_MODELS_H_
#define SHARDC_TESTS_VERIFY_STEP_SOUND_MODELS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/mesh.h"
#include "model/step_graph.h"
#include "step/constraints.h"

namespace shardc::verify {

// The sizes of dimensions: batch, tokens, hidden size, heads, KV heads, head
// size, MLP width, vocabulary.
struct SoundSizes {
  int64_t b = 8, t = 8, d = 8, n = 8, k = 2, h = 2, f = 8, v = 16;
};

struct SoundModelKind {
  SoundSizes sizes = {};
  int layers = 1;
  // The order of dimensions in the fused gate and up projection: z is gate or
  // up, f is the MLP width. If true, the order is (z f), and each half is
  // contiguous. If false, it is (f z), and gate and up alternate.
  bool halves_outside = false;
  // Whether keys and values are computed from a shared latent.
  bool latent = false;
  // Whether the layers have experts in place of attention and MLP.
  bool experts = false;
  bool decodes = false;    // true: one token after a cache, no backward pass
  bool recompute = false;  // true: activations of layers are rematerialised
  // The number of devices in the ring of ring attention; 1 if there is no ring.
  int64_t turns = 1;
  // The axes of the parameters of keys and values; empty for {"tp"} if there
  // are more than two KV heads, and for none otherwise.
  AxisGroup kv_axes = {};
  // Used with `experts`. If true, every layer has attention, and only every
  // second layer has experts in place of an MLP.
  bool mixed = false;
  // True if the caller writes the micro-batches and the optimizer.
  bool bare = false;
};

// A small model: its graph, the sizes of the graph's labels, the specs of its
// parameters, and the mesh axes of its sharding constraints. The constraints
// must be set before the graph is written.
struct SoundModel {
  step::Graph graph = {};
  step::Sizes sizes = {};
  std::vector<Spec> specs = {};  // indexed as Graph::parameters
  step::ShardingConstraints constraints = {};

  // Adds sharding constraints that shard the logical axis over `axes`.
  void Constrain(std::string_view logical_axis, const AxisGroup& axes);
};

// Writes a model's forward pass. Unless the model decodes, also writes the
// backward pass and, unless the kind is `bare`, the optimizer.
void WriteSoundModel(const SoundModelKind& kind, SoundModel& model);
// Writes a step of two micro-batches for a model without layers: an embedding,
// a vector that the embedded tokens are multiplied by, and an output head.
void WriteMicroBatches(SoundModel& model);

}  // namespace shardc::verify

#endif  // SHARDC_TESTS_VERIFY_STEP_SOUND_MODELS_H_
