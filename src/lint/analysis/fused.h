// Finds matrices that hold several parts, such as query, key and value, or gate
// and up, and the parameters of a mixer that must be split together. The
// evidence is the parameter's name, the model's configuration, or the shapes of
// the other parameters of its block.
#ifndef SHARDC_LINT_ANALYSIS_FUSED_H_
#define SHARDC_LINT_ANALYSIS_FUSED_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lint/analysis/facts.h"

namespace shardc {

// A group of matrices. `dims` and `sizes` are those of its last two dimensions
// that do not count layers. `lead` has the sizes of the others, such as the
// number of experts.
struct Matrix {
  const ParameterGroup* group = nullptr;
  std::array<int, 2> dims = {};
  std::array<int64_t, 2> sizes = {};
  Shape lead = {};

  // Returns whether the orientation of the matrix may be [out, in] (for `out`
  // 0) or [in, out] (for `out` 1).
  bool MayBe(size_t out) const;
};

// A group of vectors, or of convolutions with one kernel for each channel.
// `size` is the number of elements or of channels.
struct Sized {
  const ParameterGroup* group = nullptr;
  int dim = 0;
  int64_t size = 0;
};

// The parameters below one path of the names, such as `layers.*.mlp.`.
// Embeddings, output heads, adapters and packed numbers are omitted.
struct Block {
  std::vector<Matrix> matrices;
  std::vector<Sized> vectors, convolutions;

  // Returns whether so few parameters are below the path that they may be those
  // of one block.
  bool IsOne() const {
    return matrices.size() + vectors.size() + convolutions.size() <= 256;
  }
};

class Blocks {
 public:
  explicit Blocks(const Facts& facts);

  // Returns the paths around a parameter, innermost first: `layers.*.mlp.up.`,
  // `layers.*.mlp.` and `layers.*.` for `layers.*.mlp.up.weight`. The last path
  // is that of the layer. It is empty if the name has no number.
  std::vector<std::string_view> PathsOf(std::string_view name) const;
  // Returns the block of a path; an empty block if no parameter is below it.
  const Block& At(std::string_view path) const;
  // Returns null if the group is not a matrix of a block.
  const Matrix* MatrixOf(const ParameterGroup& group) const;
  // Returns whether the first layer of group `a` has a parameter of `b` too.
  bool Meet(const ParameterGroup& a, const ParameterGroup& b) const;

 private:
  void Add(const Facts& facts, const ParameterGroup& group);

  const ParameterGroup* first_ = nullptr;
  char separator_ = '.';
  // By paths, which are views of the names of groups.
  std::unordered_map<std::string_view, Block> blocks_;
  // The numbers of the layers of each group, in ascending order.
  std::vector<std::vector<int64_t>> layers_;
};

struct FusedPart {
  std::string name;  // as in "queries", or "gate and up each"
  int64_t size = 0;
};

// The parts of a matrix or of a convolution's channels, which are stored in
// dimension `dim`.
struct Fused {
  int dim = 0;
  std::vector<FusedPart> parts = {};  // empty if the parts are not known
  // Which shape shows that there are several parts, as in "`down.weight` reads
  // 6144". The parts may then be interleaved. Empty if the names or the shapes
  // show that the parts are stored one after the other.
  std::string evidence = {};
  bool mixer = false;  // whether the parts are those of a mixer
};

// A mixer without attention scores: a state-space mixer (Mamba), a gated delta
// net, or a gated convolution (LFM2).
struct Mixer {
  // The projections into the mixer and out of it. Their `dim` is the dimension
  // inside of the mixer.
  std::vector<Sized> inputs = {};
  Sized output = {};
  std::vector<Sized> convolutions = {};
  // The vectors with one number for each head, such as `A_log` and `dt_bias`.
  std::vector<Sized> vectors = {};
  // The parameters with one number or one row for each channel, such as `D` and
  // `A_log` of Mamba-1.
  std::vector<Sized> channels = {};
};

struct BlockFacts {
  std::map<const ParameterGroup*, Fused> fused;
  std::vector<Mixer> mixers;
  // The index of the first mixer into which a group is a projection.
  std::unordered_map<const ParameterGroup*, size_t> mixer_of;

  // Returns the parts of a group, or null if it is not known to have several.
  const Fused* Of(const ParameterGroup& group) const;
  // Returns the mixer into which a group is a projection, or null.
  const Mixer* MixerOf(const ParameterGroup& group) const;
};

BlockFacts BlockFactsOf(const Facts& facts);
// Returns whether the parameters are projections into a mixer whose output
// projection reads activations that are unsharded over tensor-parallel axes.
// The projections' outputs are then gathered in any case.
bool IsGathered(const Facts& facts, const ParameterGroup& group);
// Adds the mixers of the model and the parts of their parameters.
void AddMixers(const Facts& facts, const Blocks& blocks, BlockFacts& out);

// Returns a text such as "queries 2048, keys 512 and values 512". Returns "of
// unknown sizes" if the parts are not known.
std::string PartsText(const Fused& fused);
// Returns a text such as "`down.weight` reads 6144".
std::string ReadsText(const Facts& facts, const ParameterGroup& group,
                      int64_t size);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_FUSED_H_
