// Creates the inputs of a step. Every number is a function of the seed, of the
// input and of the element's index in the input, so shardings cannot change it.
// What identifies an input depends on its kind:
// - a parameter: its role and layer
// - a moment of the optimizer: its index
// - tokens: their kind and micro-batch
// - a cache: its kind and value
// The random numbers of dropout depend on the op's key instead of the seed.
// Rows have different numbers of valid tokens. For example, if rows have 8
// tokens, row 1 has 5 valid tokens. The losses of these have weight 1, and
// those of the other 3 tokens have weight 0.
#include "verify/step/data.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "exec/machine/agreement.h"
#include "exec/machine/random.h"
#include "source/size.h"

namespace shardc::verify {
namespace {

using exec::Buffer;
using exec::Random;
using step::ValueId;

class Maker {
 public:
  Maker(const step::Graph& graph, const step::Sizes& sizes, Dtype dtype,
        uint64_t seed)
      : graph_(graph), sizes_(sizes), random_(seed) {
    out_.inputs = {.sizes = sizes, .dtype = dtype, .values = {}};
    out_.inputs.values.resize(graph.values.size());
    out_.values.resize(graph.values.size());
  }

  StepData Run() {
    for (size_t i = 0; i < graph_.parameters.size(); ++i) MakeParameter(i);
    for (size_t i = 0; i < graph_.moments.size(); ++i) MakeMoments(i);
    for (const step::Data& data : graph_.data) MakeData(data);
    for (const step::Op& op : graph_.ops) {
      if (op.kind == step::OpKind::kDropout) DrawDropout(op);
    }
    return std::move(out_);
  }

 private:
  Buffer& New(ValueId value) {
    const bool whole = graph_.values[AsIndex(value)].integral;
    Buffer& to = out_.inputs.values[AsIndex(value)];
    to = Buffer::Zeros(step::ShapeOf(graph_, value, sizes_),
                       whole ? Dtype::kI32 : out_.inputs.dtype);
    return to;
  }

  template <class F>
  void Fill(ValueId value, const F& f) {
    Buffer& to = New(value);
    for (size_t i = 0; i < AsIndex(to.Elements()); ++i) {
      if (to.IsWide()) {
        to.wide[i] = f(i);
      } else if (to.IsReal()) {
        to.real[i] = static_cast<float>(f(i));
      } else {
        to.integers[i] = static_cast<int32_t>(f(i));
      }
    }
    exec::RoundTo(to);
    dense::StepTensor<double>& dense = out_.values[AsIndex(value)];
    dense.shape = to.shape;
    dense.data.clear();
    dense.data.reserve(AsIndex(to.Elements()));
    for (double x : to.wide) dense.data.push_back(x);
    for (float x : to.real) dense.data.push_back(x);
    for (int32_t x : to.integers) dense.data.push_back(x);
  }

  void MakeParameter(size_t i) {
    const step::Parameter& parameter = graph_.parameters[i];
    const Random random =
        random_.Split(parameter.role).Split(AsIndex(parameter.layer + 1));
    const std::string& role = parameter.role;
    const bool bias = role.size() > 5 && role.ends_with(".bias");
    const bool norm = role.find("norm") != std::string::npos && !bias;
    const double spread = norm ? 0.3 : bias ? 0.5 : 0.4;
    Fill(parameter.value, [&](size_t at) {
      return (norm ? 1.0 : 0.0) + spread * random.Normal(at);
    });
  }

  void MakeMoments(size_t i) {
    const Random random = random_.Split("moments").Split(i);
    const step::Moments& of = graph_.moments[i];
    if (of.first >= 0) {
      Fill(of.first, [&](size_t at) { return 0.01 * random.Normal(at); });
    }
    if (of.second >= 0) {
      Fill(of.second, [&](size_t at) {
        return 1e-4 + 1e-3 * random.Split(1).Uniform(at);
      });
    }
  }

  // Sets the factors by which the reference multiplies the elements of the
  // dropout's input. A factor depends on the op's key and the element's index.
  void DrawDropout(const step::Op& op) {
    const auto& [rate, key] = step::As<step::DropoutAttributes>(op);
    const Random random = Random(static_cast<uint64_t>(key)).Split("drop");
    std::vector<double>& to = out_.values[AsIndex(op.out)].factors;
    to.resize(AsIndex(exec::ElementsOf(step::ShapeOf(graph_, op.out, sizes_))));
    for (size_t i = 0; i < to.size(); ++i) {
      to[i] = random.Uniform(i) >= rate ? 1 / (1 - rate) : 0;
    }
  }

  int64_t Tokens() const { return sizes_[AsIndex(graph_.common.query)]; }
  bool Has(ValueId value, step::LabelId label) const {
    const auto& labels = graph_.values[AsIndex(value)].labels;
    return std::find(labels.begin(), labels.end(), label) != labels.end();
  }
  bool IsEncoders(ValueId value) const {
    return Has(value, graph_.common.encoder_query);
  }
  int64_t Keys() const {
    return graph_.common.key < 0 ? Tokens()
                                 : sizes_[AsIndex(graph_.common.key)];
  }
  // Returns the number of valid tokens of a row.
  int64_t Length(int64_t row) const {
    const int64_t most = Tokens();
    return std::max<int64_t>(1, most - (row * 3 + row / 2) % (most / 2 + 1));
  }
  // Returns the position of a row's first new token.
  int64_t Begin(int64_t row) const {
    if (Tokens() == Keys()) return 0;
    const int64_t room = Keys() - Tokens();
    return room - row * 3 % (room / 2 + 1);
  }

  // Creates one data input. Each micro-batch gets its own tokens.
  void MakeData(const step::Data& data) {
    const bool of_tokens = data.kind < step::DataKind::kCache ||
                           data.kind == step::DataKind::kPatches;
    const int64_t micro = of_tokens ? made_[data.kind]++ : 0;
    Random random =
        random_.Split("data").Split(static_cast<uint64_t>(data.kind));
    if (micro > 0) random = random.Split(static_cast<uint64_t>(micro));
    const auto width = AsIndex(Tokens());
    switch (data.kind) {
      case step::DataKind::kIds:
      case step::DataKind::kLabels: {
        const auto rows = static_cast<uint64_t>(Vocabulary());
        // The ids are spread over the vocabulary by steps of 7.
        Fill(data.value, [&](size_t at) {
          return static_cast<double>((at * 7 + random.Below(at, 3)) % rows);
        });
        break;
      }
      case step::DataKind::kWeights:
        Fill(data.value, [&](size_t at) {
          const auto row = static_cast<int64_t>(at / width) + 3 * micro;
          return static_cast<int64_t>(at % width) < Length(row) ? 1.0 : 0.0;
        });
        break;
      case step::DataKind::kPositions:
        if (IsEncoders(data.value)) {
          const auto tokens =
              AsIndex(sizes_[AsIndex(graph_.common.encoder_query)]);
          Fill(data.value,
               [&](size_t at) { return static_cast<double>(at % tokens); });
          break;
        }
        Fill(data.value, [&](size_t at) {
          const auto row = static_cast<int64_t>(at / width);
          return static_cast<double>(Begin(row) +
                                     static_cast<int64_t>(at % width));
        });
        break;
      case step::DataKind::kPatches:
        Fill(data.value, [&](size_t at) { return random.Normal(at); });
        break;
      case step::DataKind::kCache:
        Fill(data.value, [&](size_t at) {
          return CacheNumber(data.value, at, random.Split(AsIndex(data.value)));
        });
        break;
      case step::DataKind::kCachePositions: {
        const auto keys = AsIndex(Keys());
        Fill(data.value,
             [&](size_t at) { return static_cast<double>(at % keys); });
        break;
      }
    }
  }

  // Returns an element of a cache. Rows beyond a sequence's length get large
  // numbers, which change the results of a program that does not mask these
  // rows. In a cache of the encoder's keys or values, all rows are used.
  double CacheNumber(ValueId value, size_t at, const Random& random) const {
    if (Has(value, graph_.common.encoder_key)) return random.Normal(at);
    const Shape shape = step::ShapeOf(graph_, value, sizes_);
    int64_t each = 1;
    for (size_t d = 2; d < shape.size(); ++d) each *= shape[d];
    const auto element = static_cast<int64_t>(at);
    const int64_t key = element / each % shape[1];
    const int64_t row = element / each / shape[1];
    return random.Normal(at) * (key < Begin(row) ? 1.0 : 100.0);
  }

  int64_t Vocabulary() const {
    for (size_t label = 0; label < sizes_.size(); ++label) {
      if (graph_.labels[label].semantic == "VOCAB") return sizes_[label];
    }
    if (graph_.logits >= 0) {
      const step::LabelId last =
          graph_.values[AsIndex(graph_.logits)].labels.back();
      return sizes_[AsIndex(last)];
    }
    return 16;
  }

  const step::Graph& graph_;
  const step::Sizes& sizes_;
  Random random_;
  StepData out_;
  std::map<step::DataKind, int64_t> made_;
};

}  // namespace

StepData MakeStepData(const step::Graph& graph, const step::Sizes& sizes,
                      Dtype dtype, uint64_t seed) {
  return Maker(graph, sizes, dtype, seed).Run();
}

// Compares values of a run with the reference. Each device has a part of a
// value, which is compared with the same part of the reference:
//
//   [4, 8] over dp=2: the device with rows 2 and 3 is compared with elements 16
//   to 31 of the reference

namespace {

using exec::Buffer;

double ElementOf(const Buffer& buffer, size_t i) {
  if (buffer.IsWide()) return buffer.wide[i];
  return buffer.IsReal() ? static_cast<double>(buffer.real[i])
                         : static_cast<double>(buffer.integers[i]);
}

}  // namespace

double Difference(const Buffer& got, const std::vector<double>& want) {
  double most = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double x = ElementOf(got, i);
    if (x == want[i]) continue;
    const double off = std::abs(x - want[i]);
    if (!(off <= most)) most = std::isnan(off) ? INFINITY : off;
  }
  return most;
}

double DifferenceHere(const exec::SimMesh& mesh,
                      const exec::ShardedTensor& tensor,
                      const std::vector<double>& want) {
  // Maps the start index of each part of the tensor to the last device of this
  // rank (process) that holds the part.
  std::map<Shape, int> last;
  for (int d = mesh.first_held(); d < mesh.end_held(); ++d) {
    last[exec::LocalStart(mesh, tensor.shape, tensor.spec, d)] = d;
  }
  if (last.size() == 1 &&
      tensor.local[AsIndex(last.begin()->second)].Elements() ==
          static_cast<int64_t>(want.size())) {
    return Difference(tensor.local[AsIndex(last.begin()->second)], want);
  }
  const Buffer right{tensor.shape, Dtype::kF64, {}, {}, want};
  double most = 0;
  for (const auto& [start, device] : last) {
    const Buffer& part = tensor.local[AsIndex(device)];
    most = std::max(
        most,
        Difference(part, exec::SliceBlock(right, start, part.shape).wide));
  }
  return most;
}

Buffer GatherAnyway(const exec::SimMesh& mesh, exec::Transport* transport,
                    const exec::ShardedTensor& tensor) {
  std::vector<int> all(AsIndex(mesh.devices()));
  std::iota(all.begin(), all.end(), 0);
  exec::PerDevice shared;
  if (transport != nullptr) shared = exec::ShareArrays(mesh, tensor, all);
  Buffer out = Buffer::Zeros(tensor.shape, tensor.dtype);
  for (const int device : all) {
    const Buffer& part =
        (shared.empty() ? tensor.local : shared)[AsIndex(device)];
    exec::CopyBlock(part, Shape(part.shape.size(), 0), out,
                    exec::LocalStart(mesh, tensor.shape, tensor.spec, device),
                    part.shape);
  }
  return out;
}

}  // namespace shardc::verify
