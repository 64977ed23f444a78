// What a step is given beside its parameters: the tokens of each stack of
// layers, where they stand, and what training compares with.
#ifndef SHARDC_STEP_STREAMS_H_
#define SHARDC_STEP_STREAMS_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "model/axis_rules.h"
#include "model/step_graph.h"
#include "step/attention.h"
#include "step/graph_writer.h"

namespace shardc::step {

// The tokens of a stack of layers.
struct Stream {
  LabelId query = kNoLabel, key = kNoLabel;
  ValueId ids = kNoValue, positions = kNoValue;
  // As attention sees them; the keys' only where they were asked for.
  ValueId query_positions = kNoValue, key_positions = kNoValue;
  // The same of all rows, where they are asked for.
  ValueId places = kNoValue, key_places = kNoValue;
  bool causal = true;
};

class Streams {
 public:
  explicit Streams(GraphWriter& write) : write_(write) {}

  // `per_row`: a row has one label, not one a token. A form of attention of
  // its own knows the positions of all its queries and keys.
  void Make(size_t stacks, Mode mode, bool per_row, AttentionView view);

  Stream& operator[](size_t stack) { return streams_[stack]; }
  // Whose tokens a value has.
  size_t StackOf(ValueId value) const;

  // What comes from outside, anchored there.
  ValueId NewData(DataKind kind, std::string name, Labels labels, bool integral,
                  std::string_view constraint);
  // Positions of a stream's keys, and places of its queries and keys, from
  // those of its queries, outside the layers; each made once.
  void MakeKeyPositions(Stream& of);
  void MakePlaces(Stream& of);

  // Of training.
  ValueId labels() const { return labels_; }
  ValueId weights() const { return weights_; }

 private:
  void MakeEncoder();
  void MakeOwnPositions(Mode mode);
  void MakeKeys(const Stream& of, ValueId queries, ValueId& keys);

  GraphWriter& write_;
  std::vector<Stream> streams_;  // by stack
  ValueId labels_ = kNoValue, weights_ = kNoValue;
};

}  // namespace shardc::step

#endif  // SHARDC_STEP_STREAMS_H_
