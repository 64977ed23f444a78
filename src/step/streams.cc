// Creates the inputs of a step other than parameters. A stream is the sequence
// of tokens that a layer stack reads. Stream 0 has the model's own tokens, and
// stream 1 has the tokens of an encoder. For example:
//
//   whisper: decoder tokens [b, t], encoder frames [b, te]
//
// Several lines of a description may read the same input, so its name describes
// its contents ("encoder positions") and not one of the lines.
#include "step/streams.h"

#include <utility>

#include "model/model_description.h"
#include "source/index.h"

namespace shardc::step {

void Streams::Make(size_t stacks, Mode mode, bool per_row, AttentionView view) {
  const CommonLabels common = write_.graph().common;
  const Labels tokens = {common.batch, common.query};
  streams_.resize(stacks);
  Stream& own = streams_[0];
  own.query = common.query;
  own.key = common.key;
  own.ids = NewData(DataKind::kIds, "ids", tokens, true, "tokens");
  own.positions =
      NewData(DataKind::kPositions, "positions", tokens, true, "tokens");
  if (mode == Mode::kTrain) {
    const Labels each = per_row ? Labels{common.batch} : tokens;
    labels_ = NewData(DataKind::kLabels, "labels", each, true, "tokens");
    weights_ = NewData(DataKind::kWeights, "weights", each, false, "tokens");
  }
  if (mode == Mode::kDecode) {
    own.key_positions =
        NewData(DataKind::kCachePositions, "cache positions",
                {common.batch, common.key}, true, "cache_positions");
  }
  if (common.encoder_query != kNoLabel) MakeEncoder();
  for (Stream& stream : streams_) stream.query_positions = stream.positions;
  if (view != AttentionView::kGlobal) MakeOwnPositions(mode);
}

void Streams::MakeEncoder() {
  const CommonLabels common = write_.graph().common;
  const Labels tokens = {common.batch, common.encoder_query};
  Stream& stream = streams_[kEncoderStack];
  stream.query = common.encoder_query;
  stream.key = common.encoder_key;
  stream.ids = NewData(DataKind::kIds, "encoder ids", tokens, true, "tokens");
  stream.positions = NewData(DataKind::kPositions, "encoder positions", tokens,
                             true, "tokens");
  stream.causal = false;
}

void Streams::MakeOwnPositions(Mode mode) {
  const CommonLabels common = write_.graph().common;
  Stream& own = streams_[0];
  own.query_positions =
      NewData(DataKind::kPositions, "positions of queries",
              {common.batch, common.query}, true, "op_positions");
  own.key_positions = NewData(
      mode == Mode::kDecode ? DataKind::kCachePositions : DataKind::kPositions,
      "positions of keys", {common.batch, common.key}, true, "op_positions");
}

size_t Streams::StackOf(ValueId value) const {
  const LabelId encoder = write_.graph().common.encoder_query;
  return encoder != kNoLabel && write_.Has(value, encoder) ? kEncoderStack : 0;
}

ValueId Streams::NewData(DataKind kind, std::string name, Labels labels,
                         bool integral, std::string_view constraint) {
  std::swap(write_.name, name);
  const ValueId value = write_.Input(std::move(labels), integral);
  std::swap(write_.name, name);
  write_.graph().data.push_back({kind, value});
  write_.Producer(value).constraint = constraint;
  return value;
}

void Streams::MakeKeys(const Stream& of, ValueId queries, ValueId& keys) {
  if (keys != kNoValue) return;
  keys = write_.Rename(queries, of.query, of.key);
  write_.Producer(keys).layer = -1;
  write_.graph().values[AsIndex(keys)].integral = true;
}

void Streams::MakeKeyPositions(Stream& of) {
  MakeKeys(of, of.positions, of.key_positions);
}

void Streams::MakePlaces(Stream& of) {
  if (of.places != kNoValue) return;
  of.places =
      NewData(DataKind::kPositions, "places", {of.query}, true, "tokens");
  write_.Producer(of.places).layer = -1;
  MakeKeys(of, of.places, of.key_places);
}

}  // namespace shardc::step
