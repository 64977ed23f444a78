// The ops that the reader of `shardc.program/v1` knows, and questions to a
// program. A new op class is a row of the table, a rule in ties.cc and a case
// in shapes.cc.
#include "program/program.h"

#include <algorithm>
#include <string>

#include "program/read.h"
#include "source/list.h"
#include "source/wording.h"

namespace shardc::program {

std::span<const int64_t> Op::Of(Attr attr) const {
  for (const auto& [key, list] : numbers) {
    if (key == attr) return list;
  }
  return {};
}

int64_t Op::NumberOf(Attr attr, int64_t otherwise) const {
  const auto list = Of(attr);
  return list.empty() ? otherwise : list.front();
}

std::string NameOf(const Op& op) {
  const std::string name(RowOf(op.kind).name);
  return op.word.empty() || op.kind == OpKind::kOpaque ? name
                                                       : name + " " + op.word;
}

bool Region::IsManual(std::string_view axis) const {
  return manual_axes.empty() ||
         std::ranges::find(manual_axes, axis) != manual_axes.end();
}

bool HasDim(std::span<const int64_t> list, size_t dim) {
  return std::ranges::find(list, static_cast<int64_t>(dim)) != list.end();
}

std::string Program::LineText(const Line& line) const {
  if (!line.known()) return "";
  return files[static_cast<size_t>(line.file)] + ":" +
         std::to_string(line.line);
}

std::optional<size_t> ParamOfState(const Program& program, const Input& state) {
  std::optional<size_t> out;
  size_t longest = 0;
  size_t next = 0;
  for (const Input& input : program.inputs) {
    if (input.kind != InputKind::kParam) continue;
    const size_t index = next++;
    const bool longer = !out || input.name.size() > longest;
    if (longer && state.name.ends_with(input.name) &&
        program.ShapeOf(input.value) == program.ShapeOf(state.value)) {
      out = index;
      longest = input.name.size();
    }
  }
  return out;
}

Manifest ManifestOf(const Program& program) {
  ManifestBuilder builder;
  bool slash = false;
  bool dot = false;
  for (const Input& input : program.inputs) {
    if (input.kind != InputKind::kParam) continue;
    const Value& value = program.values[input.value];
    builder.Add(input.name, {value.shape, value.dtype});
    slash = slash || input.name.find('/') != std::string::npos;
    dot = dot || input.name.find('.') != std::string::npos;
  }
  builder.manifest().separator = slash ? '/' : dot ? '.' : '\0';
  return builder.Take();
}

namespace {

// The table from which the reader knows the ops of `shardc.program/v1`. A new
// op class is a row here, a rule in ties.cc and a case in shapes.cc.

using enum AttrForm;
constexpr int kRes = kResultValue;

constexpr AttrRow kIotaAttrs[] = {{"dim", Attr::kDim, kDim, kRes}};
constexpr AttrRow kBroadcastAttrs[] = {{"dims", Attr::kDims, kDims, kRes}};
constexpr AttrRow kReduceAttrs[] = {{"axes", Attr::kAxes, kDims}};
constexpr AttrRow kTransposeAttrs[] = {{"perm", Attr::kPerm, kDims}};
constexpr AttrRow kSliceAttrs[] = {{"start", Attr::kStart, kSizes},
                                   {"limit", Attr::kLimit, kSizes},
                                   {"stride", Attr::kStride, kSteps, 0, true}};
constexpr AttrRow kConcatAttrs[] = {{"dim", Attr::kDim, kDim}};
constexpr AttrRow kPadAttrs[] = {{"low", Attr::kLow, kPads},
                                 {"high", Attr::kHigh, kPads},
                                 {"interior", Attr::kInterior, kSizes}};
constexpr AttrRow kRevAttrs[] = {{"dims", Attr::kDims, kDims}};
constexpr AttrRow kDotAttrs[] = {{"lhs_contract", Attr::kLhsContract, kDims, 0},
                                 {"rhs_contract", Attr::kRhsContract, kDims, 1},
                                 {"lhs_batch", Attr::kLhsBatch, kDims, 0},
                                 {"rhs_batch", Attr::kRhsBatch, kDims, 1}};
constexpr AttrRow kRaggedAttrs[] = {
    {"lhs_contract", Attr::kLhsContract, kDims, 0},
    {"rhs_contract", Attr::kRhsContract, kDims, 1},
    {"lhs_batch", Attr::kLhsBatch, kDims, 0},
    {"rhs_batch", Attr::kRhsBatch, kDims, 1},
    {"lhs_ragged", Attr::kLhsRagged, kDims, 0},
    {"rhs_group", Attr::kRhsGroup, kDims, 1}};
constexpr AttrRow kConvAttrs[] = {
    {"lhs", Attr::kLhs, kDims, 0},
    {"rhs", Attr::kRhs, kDims, 1},
    {"result", Attr::kResult, kDims, kRes},
    {"strides", Attr::kStrides, kList},
    {"padding", Attr::kPadding, kPairs},
    {"lhs_dilation", Attr::kLhsDilation, kList, 0, true},
    {"rhs_dilation", Attr::kRhsDilation, kList, 0, true},
    {"groups", Attr::kGroups, kCount},
    {"batch_groups", Attr::kBatchGroups, kCount, 0, true}};
constexpr AttrRow kMapAttrs[] = {
    {"exponent", Attr::kExponent, kNumber, 0, true},
    {"method", Attr::kMethod, kCount, 0, true}};
constexpr AttrRow kCumulativeAttrs[] = {
    {"dim", Attr::kDim, kDim}, {"reverse", Attr::kReverse, kFlag, 0, true}};
constexpr AttrRow kSortAttrs[] = {{"dim", Attr::kDim, kDim},
                                  {"keys", Attr::kKeys, kCount, 0, true}};
constexpr AttrRow kTopKAttrs[] = {{"dim", Attr::kDim, kDim},
                                  {"k", Attr::kK, kCount}};
constexpr AttrRow kGatherAttrs[] = {
    {"offset_dims", Attr::kOffsetDims, kDims, kRes},
    {"collapsed_dims", Attr::kCollapsedDims, kDims, 0},
    {"operand_batch_dims", Attr::kOperandBatchDims, kDims, 0},
    {"indices_batch_dims", Attr::kIndicesBatchDims, kDims, 1},
    {"start_index_map", Attr::kStartIndexMap, kDims, 0},
    {"slice_sizes", Attr::kSliceSizes, kSizes}};
constexpr AttrRow kScatterAttrs[] = {
    {"update_window_dims", Attr::kUpdateWindowDims, kDims, 2},
    {"inserted_window_dims", Attr::kInsertedDims, kDims, 0},
    {"operand_batch_dims", Attr::kOperandBatchDims, kDims, 0},
    {"indices_batch_dims", Attr::kIndicesBatchDims, kDims, 1},
    {"operand_dims", Attr::kOperandDims, kDims, 0}};
constexpr AttrRow kDynamicSliceAttrs[] = {{"sizes", Attr::kSizes, kSizes}};
constexpr AttrRow kScanAttrs[] = {{"consts", Attr::kConsts, kCount},
                                  {"carry", Attr::kCarry, kCount},
                                  {"length", Attr::kLength, kCount},
                                  {"reverse", Attr::kReverse, kFlag, 0, true}};
constexpr AttrRow kWhileAttrs[] = {
    {"condition_consts", Attr::kConditionConsts, kCount},
    {"body_consts", Attr::kBodyConsts, kCount}};
constexpr AttrRow kCollectiveAttrs[] = {
    {"dim", Attr::kDim, kCount, 0, true},
    {"split_dim", Attr::kSplitDim, kCount, 0, true},
    {"concat_dim", Attr::kConcatDim, kCount, 0, true},
    {"tiled", Attr::kTiled, kFlag, 0, true},
    {"perm", Attr::kPairs, kPairs, 0, true}};
constexpr AttrRow kSolveAttrs[] = {
    {"left_side", Attr::kLeftSide, kFlag},
    {"lower", Attr::kLower, kFlag},
    {"transpose", Attr::kTranspose, kFlag},
    {"unit_diagonal", Attr::kUnitDiagonal, kFlag}};

// What the format has besides. The reader has a case of its own for the mode of
// indices and for the specs of regions, and no code needs the others.
constexpr std::string_view kUnread[] = {
    "axes", "bits", "fill",   "fn",        "in_specs", "manual_axes",
    "mesh", "mode", "module", "out_specs", "reason",   "spec"};

constexpr std::string_view kBody[] = {"body"};
constexpr std::string_view kLoop[] = {"condition", "body"};
constexpr std::string_view kBranches[] = {"branches"};

constexpr OpRow kRows[] = {
    {OpKind::kConst, "const", 0, 0, 1, {}, {}, {}},
    {OpKind::kIota, "iota", 0, 0, 1, kIotaAttrs, {}, {}},
    {OpKind::kRandom, "random", 0, -1, -1, {}, {}, {}},
    {OpKind::kMap, "map", 1, -1, 1, kMapAttrs, "fn", {}},
    {OpKind::kBroadcast, "broadcast", 1, 1, 1, kBroadcastAttrs, {}, {}},
    {OpKind::kReduce, "reduce", 1, 1, 1, kReduceAttrs, "fn", {}},
    {OpKind::kReshape, "reshape", 1, 1, 1, {}, {}, {}},
    {OpKind::kTranspose, "transpose", 1, 1, 1, kTransposeAttrs, {}, {}},
    {OpKind::kSlice, "slice", 1, 1, 1, kSliceAttrs, {}, {}},
    {OpKind::kConcat, "concat", 1, -1, 1, kConcatAttrs, {}, {}},
    {OpKind::kPad, "pad", 1, 2, 1, kPadAttrs, {}, {}},
    {OpKind::kRev, "rev", 1, 1, 1, kRevAttrs, {}, {}},
    {OpKind::kDot, "dot", 2, 2, 1, kDotAttrs, {}, {}},
    {OpKind::kRaggedDot, "ragged_dot", 3, 3, 1, kRaggedAttrs, {}, {}},
    {OpKind::kConv, "conv", 2, 2, 1, kConvAttrs, {}, {}},
    {OpKind::kCumulative, "cumulative", 1, 1, 1, kCumulativeAttrs, "fn", {}},
    {OpKind::kSort, "sort", 1, -1, -1, kSortAttrs, {}, {}},
    {OpKind::kTopK, "top_k", 1, 1, 2, kTopKAttrs, {}, {}},
    {OpKind::kGather, "gather", 2, 2, 1, kGatherAttrs, {}, {}},
    {OpKind::kScatter, "scatter", 3, 3, 1, kScatterAttrs, "fn", {}},
    {OpKind::kDynamicSlice,
     "dynamic_slice",
     1,
     -1,
     1,
     kDynamicSliceAttrs,
     {},
     {}},
    {OpKind::kDynamicUpdateSlice, "dynamic_update_slice", 2, -1, 1, {}, {}, {}},
    {OpKind::kScan, "scan", 0, -1, -1, kScanAttrs, {}, kBody},
    {OpKind::kWhile, "while", 0, -1, -1, kWhileAttrs, {}, kLoop},
    {OpKind::kCond, "cond", 1, -1, -1, {}, {}, kBranches},
    {OpKind::kSolve, "solve", 2, 2, 1, kSolveAttrs, {}, {}},
    {OpKind::kManual, "manual", 0, -1, -1, {}, {}, kBody},
    {OpKind::kCollective,
     "collective",
     0,
     -1,
     -1,
     kCollectiveAttrs,
     "kind",
     {}},
    {OpKind::kConstraint, "constraint", 1, 1, 1, {}, {}, {}},
    {OpKind::kOpaque, "opaque", 0, -1, -1, {}, "primitive", {}},
};

}  // namespace

std::span<const OpRow> OpRows() { return kRows; }

bool IsUnread(std::string_view key) { return IsAmong(key, kUnread); }

const OpRow* FindOpRow(std::string_view name) {
  const auto* const row =
      std::ranges::find(std::begin(kRows), std::end(kRows), name, &OpRow::name);
  return row == std::end(kRows) ? nullptr : row;
}

}  // namespace shardc::program
