// Creates the inputs of a step other than parameters: the tokens of each layer
// stack, their positions, and the labels of training.
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

// The tokens that a stack of layers processes.
struct Stream {
  LabelId query = kNoLabel, key = kNoLabel;
  ValueId ids = kNoValue, positions = kNoValue;
  // The positions that attention reads. Make() sets key_positions in decoding
  // and for kernels; otherwise MakeKeyPositions() sets it.
  ValueId query_positions = kNoValue, key_positions = kNoValue;
  // Positions that are the same in all sequences of a batch, so they have no
  // batch label. Set by MakePlaces().
  ValueId places = kNoValue, key_places = kNoValue;
  bool causal = true;
};

class Streams {
 public:
  explicit Streams(GraphWriter& write) : write_(write) {}

  // Creates the streams (token inputs) of all stacks. With `per_row`, each
  // sequence has one label for training; otherwise each token has one. If
  // `view` is not kGlobal, the queries and the keys of attention have separate
  // inputs for their positions.
  void Make(size_t stacks, Mode mode, bool per_row, AttentionView view);

  Stream& operator[](size_t stack) { return streams_[stack]; }
  // Returns the stack whose tokens a value has.
  size_t StackOf(ValueId value) const;

  ValueId NewData(DataKind kind, std::string name, Labels labels, bool integral,
                  std::string_view constraint);
  // MakeKeyPositions computes the positions of a stream's keys from the
  // positions of its queries. MakePlaces creates an input for positions that
  // are the same in all sequences (Stream::places), and computes `key_places`
  // from it. The ops of both functions belong to no layer. A second call for
  // the same stream has no effect.
  void MakeKeyPositions(Stream& of);
  void MakePlaces(Stream& of);

  // The labels and the weights of the training loss; kNoValue in other modes.
  ValueId labels() const { return labels_; }
  ValueId weights() const { return weights_; }

 private:
  void MakeEncoder();
  void MakeOwnPositions(Mode mode);
  void MakeKeys(const Stream& of, ValueId queries, ValueId& keys);

  GraphWriter& write_;
  std::vector<Stream> streams_;  // One stream for each stack, indexed by stack.
  ValueId labels_ = kNoValue, weights_ = kNoValue;
};

}  // namespace shardc::step

#endif  // SHARDC_STEP_STREAMS_H_
