// Finds mixers by their convolution, which has one kernel for each channel. The
// channels are those of some of the parts that a projection [F, W] into the
// mixer computes; the projection out of it, [W, I], reads the inner size I.
// With C channels and h heads, F shows the parts. G is (C - I) / 2:
//
//   Mamba-2    F = C + I + h   [gate I | input I | B G | C G | time step h]
//              channels        [input I | B G | C G]
//   delta net  F = C + I + 2h  [queries G | keys G | values I | gate I |
//                               beta h | decay h]
//              channels        [queries G | keys G | values I]
//   delta net  F = C, and a gate [I, W] in another projection
//   LFM2       F = 3I, C = I   three parts that are as large
//   Mamba-1    F = 2I, C = I   two parts that are as large
//   delta net  F = C           a convolution for each of several projections
//
// For example, F = 12352, C = 8192, I = 4096 and two vectors of 32 elements:
// 12352 = 8192 + 4096 + 2 * 32, a delta net with G = 2048.
//
// Mamba-1 has a vector of I elements for its channels, and a matrix [I, S] of
// states. A projection [R + 2S, I] and one [I, R] show which matrix that is.
//
// Without a convolution, the names of Mamba-2 show a mixer: `A_log` is a vector
// of h elements, and `norm` one of I elements.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lint/analysis/fused.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/heads.h"
#include "lint/analysis/phrase.h"
#include "model/name.h"
#include "roles/role.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

std::vector<FusedPart> MambaChannels(int64_t inner, int64_t group) {
  return {{"input", inner}, {"B", group}, {"C", group}};
}

std::vector<FusedPart> MambaInput(int64_t inner, int64_t group, int64_t heads) {
  return {{"gate", inner},
          {"input", inner},
          {"B", group},
          {"C", group},
          {"time step", heads}};
}

std::vector<FusedPart> DeltaChannels(int64_t inner, int64_t group) {
  return {{"queries", group}, {"keys", group}, {"values", inner}};
}

class MixerFinder {
 public:
  MixerFinder(const Facts& facts, const Blocks& blocks, BlockFacts& out)
      : facts_(facts), blocks_(blocks), out_(out) {}

  void Find() {
    for (const ParameterGroup& group : facts_.groups()) {
      const auto paths = blocks_.PathsOf(group.name);
      const Block& module = blocks_.At(paths.front());
      if (!module.IsOne()) continue;
      for (const Sized& one : module.convolutions) {
        if (one.group == &group) FindAround(one, paths);
      }
    }
    FindByName();
  }

 private:
  void FindAround(const Sized& convolution,
                  const std::vector<std::string_view>& paths) {
    for (const std::string_view path : paths) {
      const Block& block = blocks_.At(path);
      if (!block.IsOne()) return;
      std::vector<Sized> convolutions;
      for (const Sized& one : block.convolutions) {
        if (blocks_.Meet(*convolution.group, *one.group)) {
          convolutions.push_back(one);
        }
      }
      if (convolutions.size() > 1) {
        if (convolutions.front().group == convolution.group) {
          FindSeparate(std::move(convolutions), block);
        }
        return;
      }
      for (const Matrix& output : block.matrices) {
        for (const size_t out : {size_t{0}, size_t{1}}) {
          if (FindWith(convolution, block, output, out)) return;
        }
      }
    }
  }

  // Returns the projections of the block that read the width of `output`.
  std::vector<Sized> InputsOf(const Sized& convolution, const Block& block,
                              const Matrix& output, size_t out) const {
    std::vector<Sized> inputs;
    for (const Matrix& input : block.matrices) {
      if (input.group != output.group &&
          input.sizes[1 - out] == output.sizes[out] &&
          Belongs(convolution, input, out)) {
        inputs.push_back({input.group, input.dims[out], input.sizes[out]});
      }
    }
    return inputs;
  }

  // Adds a mixer each of whose projections has a convolution of its own, unless
  // several matrices may be its output projection and no name decides.
  void FindSeparate(std::vector<Sized> convolutions, const Block& block) {
    std::vector<Mixer> found;
    bool named = false;
    for (const Matrix& output : block.matrices) {
      for (const size_t out : {size_t{0}, size_t{1}}) {
        auto mixer = SeparateWith(convolutions, block, output, out);
        if (!mixer) continue;
        const bool gives = GivesWidth(output.group->role.module_role);
        if (gives && !named) found.clear();
        if (gives == (named || gives)) found.push_back(*std::move(mixer));
        named |= gives;
      }
    }
    if (found.size() == 1) out_.mixers.push_back(std::move(found.front()));
  }

  std::optional<Mixer> SeparateWith(const std::vector<Sized>& convolutions,
                                    const Block& block, const Matrix& output,
                                    size_t out) const {
    const Sized& first = convolutions.front();
    if (!Belongs(first, output, out)) return std::nullopt;
    const int64_t inner = output.sizes[1 - out];
    const std::vector<Sized> inputs = InputsOf(first, block, output, out);
    const auto count = [](const std::vector<Sized>& list, int64_t size) {
      return std::count_if(list.begin(), list.end(),
                           [&](const Sized& one) { return one.size == size; });
    };
    if (count(convolutions, inner) == 0) return std::nullopt;
    Mixer mixer{.output = {output.group, output.dims[1 - out], inner},
                .convolutions = convolutions};
    for (const Sized& one : convolutions) {
      if (count(inputs, one.size) < count(convolutions, one.size)) {
        return std::nullopt;
      }
    }
    for (const Sized& one : inputs) {
      if (count(convolutions, one.size) > 0) mixer.inputs.push_back(one);
    }
    AddHeads(inputs, block, mixer);
    return mixer;
  }

  // Finds a delta net whose queries, keys and values have projections of their
  // own and one convolution:
  //
  //   q, k [G, W], v [I, W], conv1d [2G + I, 1, 4]
  bool FindJoined(const Sized& convolution, const std::vector<Sized>& inputs,
                  const Block& block, int64_t group, Mixer mixer) {
    const int64_t inner = mixer.output.size;
    std::vector<Sized> joined;
    for (const Sized& one : inputs) {
      if (one.size == group || one.size == inner) joined.push_back(one);
    }
    if (joined.size() != 3 ||
        std::accumulate(joined.begin(), joined.end(), int64_t{0},
                        [](int64_t sum, const Sized& one) {
                          return sum + one.size;
                        }) != convolution.size) {
      return false;
    }
    mixer.inputs = std::move(joined);
    const bool named = std::any_of(
        mixer.inputs.begin(), mixer.inputs.end(), [](const Sized& one) {
          return one.group->role.module_role == Role::kQuery;
        });
    AddHeads(inputs, block, mixer);
    out_.fused[convolution.group] = {
        .dim = convolution.dim,
        .parts = named || group != inner
                     ? DeltaChannels(inner, group)
                     : std::vector<FusedPart>{{"3 equal parts, each", inner}},
        .mixer = true};
    out_.mixers.push_back(std::move(mixer));
    return true;
  }

  // Adds the vectors of the heads. Beta and decay are computed by two small
  // projections, or by one. If the decay is one of channels (Kimi Linear), its
  // vector has the inner size, and only one vector is that of heads.
  void AddHeads(const std::vector<Sized>& inputs, const Block& block,
                Mixer& mixer) const {
    for (const Sized& one : inputs) {
      for (const int64_t heads : {one.size, one.size / 2}) {
        auto vectors = VectorsOf(block, mixer.convolutions.front(), heads);
        if (one.size >= mixer.output.size || vectors.empty()) continue;
        if (vectors.size() == 1) {
          // The norm of a head's columns may be as long as a low rank.
          if (vectors.front().group->role.module_role == Role::kNorm) continue;
          auto channels =
              VectorsOf(block, mixer.convolutions.front(), mixer.output.size);
          std::erase_if(channels, [](const Sized& channel) {
            return channel.group->role.module_role == Role::kNorm;
          });
          if (channels.size() != 1) continue;
          mixer.channels = std::move(channels);
        }
        mixer.vectors = std::move(vectors);
        mixer.inputs.push_back(one);
        break;
      }
    }
  }

  // Adds the vectors and the matrix of states of the channels of Mamba-1.
  void AddChannels(const Block& block, Mixer& mixer) const {
    const int64_t inner = mixer.output.size;
    const Sized& convolution = mixer.convolutions.front();
    mixer.channels = VectorsOf(block, convolution, inner);
    std::vector<Sized> sides;  // with the size of the other side
    for (const Matrix& one : block.matrices) {
      for (const size_t side : {size_t{0}, size_t{1}}) {
        if (one.sizes[side] == inner && one.lead.empty() &&
            one.group != mixer.output.group &&
            blocks_.Meet(*convolution.group, *one.group)) {
          sides.push_back({one.group, one.dims[side], one.sizes[1 - side]});
        }
      }
    }
    std::map<const ParameterGroup*, Sized> states;
    for (const Sized& one : sides) {
      for (const Sized& rank : sides) {
        for (const Sized& both : sides) {
          if (one.size != rank.size && both.size == rank.size + 2 * one.size) {
            states.insert({one.group, {one.group, one.dim, inner}});
          }
        }
      }
    }
    if (states.size() == 1) {
      mixer.channels.push_back(states.begin()->second);
    }
  }

  // Returns the vectors of this size in the block.
  std::vector<Sized> VectorsOf(const Block& block, const Sized& convolution,
                               int64_t size) const {
    std::vector<Sized> out;
    for (const Sized& one : block.vectors) {
      if (one.size == size && one.group->role.leaf != Leaf::kBias &&
          blocks_.Meet(*convolution.group, *one.group)) {
        out.push_back(one);
      }
    }
    return out;
  }

  // Adds the mixer if the matrix `output` may be its projection [W, I], of
  // which W is the dimension `output.dims[out]`.
  bool FindWith(const Sized& convolution, const Block& block,
                const Matrix& output, size_t out) {
    if (!Belongs(convolution, output, out)) return false;
    const int64_t channels = convolution.size, width = output.sizes[out];
    const int64_t inner = output.sizes[1 - out];
    const int64_t group = (channels - inner) / 2;
    if (channels < inner || (channels - inner) % 2 != 0) return false;
    const std::vector<Sized> inputs = InputsOf(convolution, block, output, out);
    const auto with = [&](int64_t size) -> const Sized* {
      const auto at =
          std::find_if(inputs.begin(), inputs.end(),
                       [&](const Sized& one) { return one.size == size; });
      return at == inputs.end() ? nullptr : &*at;
    };
    Mixer mixer{.output = {output.group, output.dims[1 - out], inner},
                .convolutions = {convolution}};
    const auto take = [&](int64_t size) {
      for (const Sized& one : inputs) {
        if (one.size == size) mixer.inputs.push_back(one);
      }
    };
    if (channels == inner) {
      for (const int64_t times : {3, 2}) {
        const Sized* const input = with(times * inner);
        if (input == nullptr) continue;
        out_.fused[input->group] = {
            input->dim,
            {{std::to_string(times) + " equal parts, each", inner}},
            ReadsText(facts_, *output.group, inner)};
        take(input->size);
        break;
      }
      if (mixer.inputs.empty()) return false;
      if (mixer.inputs[0].size == 2 * inner && inner != width) {
        AddChannels(block, mixer);
      }
      out_.mixers.push_back(std::move(mixer));
      return true;
    }
    for (const Sized& input : inputs) {
      const int64_t rest = input.size - channels - inner;
      if (rest <= 0) continue;
      const auto mamba = VectorsOf(block, convolution, rest);
      const auto delta = VectorsOf(block, convolution, rest / 2);
      if ((mamba.size() < 2) == (rest % 2 != 0 || delta.size() < 2)) continue;
      Fused fused{.dim = input.dim, .mixer = true};
      if (mamba.size() >= 2) {
        fused.parts = MambaInput(inner, group, rest);
      } else {
        fused.parts = DeltaChannels(inner, group);
        fused.parts.insert(
            fused.parts.end(),
            {{"gate", inner}, {"beta", rest / 2}, {"decay", rest / 2}});
      }
      mixer.vectors = mamba.size() >= 2 ? mamba : delta;
      take(input.size);
      return Add(mixer, input, std::move(fused),
                 mamba.size() >= 2 ? MambaChannels(inner, group)
                                   : DeltaChannels(inner, group));
    }
    const std::vector<FusedPart> parts = DeltaChannels(inner, group);
    const Sized* input = with(channels);
    Fused fused{.parts = parts};
    if (input == nullptr &&
        FindJoined(convolution, inputs, block, group, mixer)) {
      return true;
    }
    if (input != nullptr && with(inner) != nullptr && channels != inner) {
      take(channels);
      take(inner);
    } else if (input = with(channels + inner); input != nullptr) {
      take(channels + inner);
      fused.parts.push_back({"gate", inner});
      fused.evidence = ReadsText(facts_, *output.group, inner);
    } else {
      return false;
    }
    fused.dim = input->dim;
    AddHeads(inputs, block, mixer);
    return Add(mixer, *input, std::move(fused), parts);
  }

  bool Belongs(const Sized& convolution, const Matrix& matrix,
               size_t out) const {
    return matrix.lead.empty() && matrix.MayBe(out) &&
           blocks_.Meet(*convolution.group, *matrix.group);
  }

  bool Add(Mixer& mixer, const Sized& input, Fused fused,
           std::vector<FusedPart> channels) {
    out_.fused[input.group] = std::move(fused);
    const Sized& convolution = mixer.convolutions.front();
    out_.fused[convolution.group] = {
        .dim = convolution.dim, .parts = std::move(channels), .mixer = true};
    out_.mixers.push_back(std::move(mixer));
    return true;
  }

  // Returns the path of a mixer that has a part with this name: the name
  // "layers.*.mixer.in_proj.weight" with the part "in_proj" gives
  // "layers.*.mixer.".
  std::optional<std::string_view> PathTo(const ParameterGroup& group,
                                         std::string_view part) const {
    for (const std::string_view one :
         SplitName(group.name, facts_.separator())) {
      if (one != part) continue;
      return std::string_view(group.name)
          .substr(0, static_cast<size_t>(one.data() - group.name.data()));
    }
    return std::nullopt;
  }

  void FindByName() {
    struct Sizes {
      int64_t heads = 0, inner = 0;
    };
    std::map<std::string_view, Sizes> mixers;
    for (const ParameterGroup& group : facts_.groups()) {
      // The `A_log` of Mamba-1 is a matrix. Its projection and convolution lack
      // B and C.
      if (facts_.Rank(group) != 1) continue;
      if (const auto path = PathTo(group, "A_log")) {
        mixers[*path].heads = facts_.Elements(group);
      }
      if (const auto path = PathTo(group, "norm")) {
        mixers[*path].inner = facts_.Elements(group);
      }
    }
    for (const ParameterGroup& group : facts_.groups()) {
      if (out_.fused.contains(&group) || facts_.Rank(group) < 2) continue;
      auto path = PathTo(group, "in_proj");
      const bool projection = path.has_value();
      if (!path) path = PathTo(group, "conv1d");
      const auto mixer = path ? mixers.find(*path) : mixers.end();
      if (mixer == mixers.end() || !IsGated(*path, mixer->second.inner)) {
        continue;
      }
      const auto [heads, inner] = mixer->second;
      for (int dim = 0; dim < facts_.Rank(group) && heads > 0; ++dim) {
        const int64_t size =
            (*facts_.TypeOf(group).shape)[static_cast<size_t>(dim)];
        const int64_t rest = size - inner - (projection ? inner + heads : 0);
        if (rest <= 0 || rest % 2 != 0) continue;
        out_.fused[&group] = {.dim = dim,
                              .parts = projection
                                           ? MambaInput(inner, rest / 2, heads)
                                           : MambaChannels(inner, rest / 2),
                              .mixer = true};
        break;
      }
    }
  }

  // Returns whether a vector named `norm` may be that of Mamba-2, which has the
  // inner size. The norm of a delta net has the size of a head, and the
  // projection out of the mixer then has no dimension of this size.
  bool IsGated(std::string_view path, int64_t inner) const {
    const Block& block = blocks_.At(path);
    if (inner <= 0 || !block.IsOne()) return false;
    for (const Matrix& matrix : block.matrices) {
      if (PathTo(*matrix.group, "out_proj")) {
        return matrix.sizes[0] == inner || matrix.sizes[1] == inner;
      }
    }
    return true;
  }

  const Facts& facts_;
  const Blocks& blocks_;
  BlockFacts& out_;
};

}  // namespace

void AddMixers(const Facts& facts, const Blocks& blocks, BlockFacts& out) {
  MixerFinder(facts, blocks, out).Find();
}

}  // namespace shardc
