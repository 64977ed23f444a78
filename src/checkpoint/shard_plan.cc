// Plans the files of a split. The plan and the checkpoint must have the same
// parameters and shapes. A tensor of a tree may be named `a/w` in one of them
// and `a.w` in the other. Each tensor is divided by its spec, and the parts are
// assigned to files. Each file consists of a header and the parts without gaps.
//
//   w [8, 4] F32 by [tp], tp=4  ->  4 parts [2, 4] of 32 bytes
//   device-00001 has rows 2 and 3 as `w`; a file for a process, which may have
//   several parts of a tensor, has them as `w[2:4,0:4]`
//
// If the axes divide each of several parts of a dimension (`parts` of a rule),
// the tensor is split as one with two dimensions in place of this one
// (model/legal_sizes.h). A file has a tensor with the dimensions of the
// parameter:
//
//   w [8, 4] by [tp] in parts [2], tp=2  ->  [2, 4, 4] by [null, tp];
//   device-00000 has rows 0, 1, 4 and 5 as `w` [4, 4]
//
// If the parts have stated sizes, the tensor is split as one dimension, and a
// box has the same share of each part (SizedParts in transfer.h).
#include "checkpoint/shard_plan.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "checkpoint/shards_index.h"
#include "checkpoint/transfer.h"
#include "floats/convert.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/mesh_layout.h"
#include "source/json_writer.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Assigns the parts of tensors to files. The coordinates of a device on the
// mesh determine which parts the device holds. There are three layouts:
//
// - One file for each device. A replicated part is stored in several files.
// - One file for each process. Each part is stored in one file only. If several
//   processes hold a part, one of them stores it: the first process for tensor
//   0, the second for tensor 1, and so on in turn.
// - One file for each shard, which is a set of devices. It stores the parts
//   that exactly these devices hold.
//
// For example, w is sharded over tp, and b is replicated:
//
//   dp=2 tp=2, 2 processes
//   device   0: w0 b   1: w1 b   2: w0 b   3: w1 b
//   process  0: w0 w1  1: b
//   shard    b (all), w0 (0, 2), w1 (1, 3)

// A range of a tensor that one spec divides into parts. It is the complete
// tensor, or the layers of one pipeline stage.
struct LaidSlice {
  Partition cut;
  int64_t first_part = 0;      // number of parts in the slices before it
  std::vector<int32_t> ranks;  // pipeline ranks with this slice; empty: all
};

// The parts of one tensor. `placement` is set if only the devices at one
// coordinate of a mesh axis hold the tensor, such as an expert's weights, which
// only the devices at ep=3 hold.
struct TensorLayout {
  std::vector<LaidSlice> slices;
  std::optional<std::pair<size_t, int64_t>> placement = {};  // axis, coordinate
  // Index of the mesh axis of pipeline ranks, if any slice has `ranks`.
  size_t stage_axis = 0;

  int64_t parts() const;
  // Returns the part that a device with these coordinates holds. Returns
  // nullopt if the device holds no part: it is not at the placement's
  // coordinate, or its pipeline rank holds no slice of the tensor.
  std::optional<int64_t> PartOn(const std::vector<int64_t>& coordinates) const;
};

struct PartLayout {
  uint32_t tensor = 0;
  uint32_t part = 0;
  // The devices that hold the part; set only if there is one file for each
  // process. Otherwise all devices of the file hold each of its parts.
  std::vector<int64_t> devices;
};

struct FileLayout {
  std::string name;
  std::vector<int64_t> devices;   // devices that read from the file, ascending
  std::vector<PartLayout> parts;  // in the order of the tensors
};

std::string FileName(std::string_view series, size_t number) {
  const std::string digits = std::to_string(number);
  return std::string(series) +
         std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits +
         ".safetensors";
}

using Coordinates = std::vector<std::vector<int64_t>>;  // indexed by device

// Returns the devices that hold each part of the tensor, indexed by part.
std::vector<std::vector<int64_t>> Holders(const TensorLayout& tensor,
                                          const Coordinates& coordinates) {
  std::vector<std::vector<int64_t>> out(AsIndex(tensor.parts()));
  for (size_t device = 0; device < coordinates.size(); ++device) {
    const auto part = tensor.PartOn(coordinates[device]);
    if (part) out[AsIndex(*part)].push_back(static_cast<int64_t>(device));
  }
  return out;
}

std::vector<FileLayout> PerDevice(const std::vector<TensorLayout>& tensors,
                                  const Coordinates& coordinates) {
  std::vector<FileLayout> files;
  for (size_t device = 0; device < coordinates.size(); ++device) {
    FileLayout file{
        FileName("device-", device), {static_cast<int64_t>(device)}, {}};
    for (size_t t = 0; t < tensors.size(); ++t) {
      const auto part = tensors[t].PartOn(coordinates[device]);
      if (!part) continue;
      file.parts.push_back(
          {static_cast<uint32_t>(t), static_cast<uint32_t>(*part), {}});
    }
    files.push_back(std::move(file));
  }
  return files;
}

std::vector<FileLayout> PerProcess(const std::vector<TensorLayout>& tensors,
                                   const Coordinates& coordinates,
                                   const Mesh& mesh) {
  // With several slices (pods), the devices of a process are not adjacent in
  // the mesh, so each device is looked up.
  std::vector<int64_t> process_of;  // indexed by device
  for (int64_t device = 0; device < mesh.devices; ++device) {
    process_of.push_back(PlaceOf(mesh, device).process);
  }
  std::vector<FileLayout> files;
  std::vector<std::set<int64_t>> readers(AsIndex(mesh.processes));
  for (size_t i = 0; i < readers.size(); ++i) {
    files.push_back({FileName("process-", i), {}, {}});
  }
  for (size_t t = 0; t < tensors.size(); ++t) {
    auto holders = Holders(tensors[t], coordinates);
    for (size_t part = 0; part < holders.size(); ++part) {
      std::set<int64_t> candidates;
      for (const int64_t device : holders[part]) {
        candidates.insert(process_of[AsIndex(device)]);
      }
      if (candidates.empty()) continue;
      const auto turn = static_cast<std::ptrdiff_t>(t % candidates.size());
      const auto owner = AsIndex(*std::next(candidates.begin(), turn));
      readers[owner].insert(holders[part].begin(), holders[part].end());
      files[owner].parts.push_back({static_cast<uint32_t>(t),
                                    static_cast<uint32_t>(part),
                                    std::move(holders[part])});
    }
  }
  for (size_t i = 0; i < files.size(); ++i) {
    files[i].devices.assign(readers[i].begin(), readers[i].end());
  }
  return files;
}

std::vector<FileLayout> PerShard(const std::vector<TensorLayout>& tensors,
                                 const Coordinates& coordinates) {
  std::map<std::vector<int64_t>, std::vector<PartLayout>> sets;
  for (size_t t = 0; t < tensors.size(); ++t) {
    auto holders = Holders(tensors[t], coordinates);
    for (size_t part = 0; part < holders.size(); ++part) {
      if (holders[part].empty()) continue;
      sets[std::move(holders[part])].push_back(
          {static_cast<uint32_t>(t), static_cast<uint32_t>(part), {}});
    }
  }
  std::vector<FileLayout> files;
  for (auto& [devices, parts] : sets) {
    files.push_back(
        {FileName("shard-", files.size()), devices, std::move(parts)});
  }
  return files;
}

int64_t TensorLayout::parts() const {
  return slices.back().first_part + slices.back().cut.parts();
}

std::optional<int64_t> TensorLayout::PartOn(
    const std::vector<int64_t>& coordinates) const {
  if (placement && coordinates[placement->first] != placement->second) {
    return std::nullopt;
  }
  for (const LaidSlice& slice : slices) {
    const bool holds =
        slice.ranks.empty() || IsAmong(coordinates[stage_axis], slice.ranks);
    if (holds) return slice.first_part + slice.cut.PartOf(coordinates);
  }
  return std::nullopt;
}

// Returns the files with their parts. PlaceOf (model/mesh_layout.h) assigns
// devices to processes. If `per` is a process or a shard, each part is in
// exactly one file. If several processes hold a part, the one that stores it
// changes from tensor to tensor, so that replicated tensors are distributed
// evenly. A file for a shard contains all parts that exactly the same devices
// hold.
std::vector<FileLayout> LayoutFiles(const std::vector<TensorLayout>& tensors,
                                    const Mesh& mesh, Per per) {
  Coordinates coordinates;
  for (int64_t device = 0; device < mesh.devices; ++device) {
    coordinates.push_back(CoordinatesOf(mesh, device));
  }
  switch (per) {
    case Per::kDevice:
      return PerDevice(tensors, coordinates);
    case Per::kProcess:
      return PerProcess(tensors, coordinates, mesh);
    case Per::kShard:
      break;
  }
  return PerShard(tensors, coordinates);
}

constexpr int64_t kMaxDevices = int64_t{1} << 20;
constexpr int64_t kMaxPieces = int64_t{1} << 26;

// The alignment of the data in a file, in bytes. Data that start at a cache
// line are copied into the page cache a third faster.
constexpr size_t kDataAlignment = 64;

// Returns the name of a part, such as "w[0:512,1024:2048]". It is used in a
// file that may have several parts of one tensor.
std::string SliceName(const std::string& name, const Box& box) {
  std::string out = name + "[";
  for (size_t i = 0; i < box.shape.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(box.offset[i]) + ":" +
           std::to_string(box.offset[i] + box.shape[i]);
  }
  return out + "]";
}

class Planner {
 public:
  Planner(const Stored& stored, const ReadPlan& plan,
          const ShardOptions& options, Findings& findings)
      : stored_(stored),
        plan_(plan),
        options_(options),
        findings_(findings),
        file_metadata_(WithoutTreeRecord(stored.metadata)),
        mode_(options.mode.value_or(plan.modes.size() == 1 ? plan.modes.front()
                                                           : Mode::kTrain)) {}

  std::optional<ShardJob> Plan() {
    const size_t before = findings_.errors();
    if (!SetMesh()) return std::nullopt;
    Compare();
    if (findings_.errors() > before) return std::nullopt;
    if (options_.select && chosen_.empty()) {
      AddNothingSelected(stored_.tensors.size(), findings_);
      return std::nullopt;
    }
    job_.transfer.sources = stored_.files;
    job_.transfer.tree = stored_.tree;
    job_.transfer.directory = options_.out;
    job_.transfer.tag = "shards";
    job_.transfer.series = {"device-", "process-", "shard-"};
    job_.transfer.index_name = std::string(kShardsName);
    job_.index.fingerprint = plan_.fingerprint;
    job_.index.mode = mode_;
    job_.index.per = options_.per;
    job_.index.metadata = IndexMetadata();
    for (const auto& [tensor, param] : chosen_) AddTensor(*tensor, *param);
    if (findings_.errors() > before || !CheckSize()) return std::nullopt;
    for (FileLayout& file :
         LayoutFiles(layouts_, job_.index.mesh, options_.per)) {
      if (!AddFile(std::move(file))) return std::nullopt;
    }
    return std::move(job_);
  }

 private:
  bool SetMesh() {
    Mesh& mesh = job_.index.mesh;
    mesh = plan_.mesh;
    if (options_.processes) mesh.processes = *options_.processes;
    if (mesh.devices > kMaxDevices) {
      findings_.Add(code::kLimit, plan_.mesh_place,
                    "the plan has " + CountText(mesh.devices) +
                        " devices, more than the " + CountText(kMaxDevices) +
                        " that a checkpoint can be split for");
      return false;
    }
    if (mesh.processes < 1 || mesh.devices % mesh.processes != 0) {
      findings_.Add(code::kDeviceCount, plan_.mesh_place,
                    CountText(mesh.devices) +
                        " devices cannot be divided evenly among " +
                        Counted(mesh.processes, "process", "processes"),
                    "give a `--processes` that divides the devices");
      return false;
    }
    return true;
  }

  const std::string& PathForMessages() const {
    return stored_.tree == nullptr ? stored_.files[0].path : stored_.path;
  }

  bool Selected(const std::string& name) const {
    return !options_.select || options_.select(name);
  }

  // Returns the plan's parameter for a tensor of a tree. The parameter's name
  // is the tensor's path, joined by `/` as in orbax or by `.` as in DCP.
  // Returns null if the plan has neither name.
  const ReadParam* ParamByPath(const StoredTensor& tensor) const {
    for (const char separator : {'/', '.'}) {
      const auto found =
          params_.find(stored::JoinKeys(tensor.in_tree.keys, separator));
      if (found != params_.end()) return found->second;
    }
    return nullptr;
  }

  // Finds the tensor of each parameter. A tensor with the parameter's name is
  // preferred. Otherwise the parameter's name may be the tensor's path, joined
  // by `/` or by `.`.
  void Match() {
    for (const ReadParam& param : plan_.params) params_[param.name] = &param;
    std::vector<const StoredTensor*> others;
    for (const StoredTensor& tensor : stored_.tensors) {
      if (!Selected(tensor.name)) continue;
      const auto found = params_.find(tensor.name);
      if (found == params_.end()) {
        others.push_back(&tensor);
      } else {
        tensors_[found->second] = &tensor;
        matched_[&tensor] = found->second;
      }
    }
    for (const StoredTensor* tensor : others) {
      const ReadParam* param = ParamByPath(*tensor);
      if (param != nullptr && tensors_.emplace(param, tensor).second) {
        matched_[tensor] = param;
      }
    }
  }

  // Compares names and shapes, and reports all differences, not only the first.
  void Compare() {
    Match();
    for (const ReadParam& param : plan_.params) {
      const auto found = tensors_.find(&param);
      if (found == tensors_.end()) {
        if (!Selected(param.name)) continue;
        findings_.Add(
            code::kReference, param.place,
            "the plan has `" + param.name + "`, and the checkpoint does not");
      } else if (param.type.shape &&
                 *param.type.shape != found->second->shape) {
        findings_.Add(code::kSize, param.place,
                      "`" + param.name + "` is " +
                          ShapeText(*param.type.shape) + " in the plan and " +
                          ShapeText(found->second->shape) +
                          " in the checkpoint");
      }
    }
    for (const StoredTensor& tensor : stored_.tensors) {
      if (!Selected(tensor.name)) continue;
      const auto found = matched_.find(&tensor);
      if (found == matched_.end()) {
        findings_.Add(
            code::kReference, Place{MakeSource(PathForMessages(), {})},
            "the checkpoint has `" + tensor.name + "`, and the plan does not");
        continue;
      }
      chosen_.emplace_back(&tensor, found->second);
      NoteDtype(tensor, *found->second);
    }
    if (dtype_differs_ > 0) {
      job_.notes.push_back(
          Counted(dtype_differs_, "tensor has", "tensors have") +
          " another dtype than the plan, such as " + dtype_example_ +
          "; --cast casts them");
    }
  }

  // Returns the metadata of the index. It may record the tree, such as orbax,
  // from which the tensors were converted (shards_index.h). If tensors are
  // renamed, this record is written again with the new names.
  Metadata IndexMetadata() const {
    std::vector<NewName> names;
    bool same = true;
    for (const auto& [tensor, param] : chosen_) {
      same = same && tensor->name == param->name;
      names.push_back({tensor, param->name});
    }
    return same ? stored_.metadata : WithNewNames(stored_.metadata, names);
  }

  void NoteDtype(const StoredTensor& tensor, const ReadParam& param) {
    Findings none;
    const Dtype to = CastTo(tensor.dtype, tensor.name, options_.dtype, none);
    if (!param.type.dtype || *param.type.dtype == to) return;
    if (dtype_differs_++ == 0) {
      dtype_example_ = "`" + tensor.name + "` (" + std::string(DtypeName(to)) +
                       " for " + std::string(DtypeName(*param.type.dtype)) +
                       ")";
    }
  }

  void RefuseSpec(const Spec& spec, const DimParts& parts, const Shape& shape,
                  const ReadParam& param) {
    findings_.Add(code::kSpec, param.place,
                  "the spec " + SpecText(spec) + InPartsText(parts) + " of `" +
                      param.name + "` does not divide " + ShapeText(shape) +
                      " over " + MeshText(job_.index.mesh));
  }

  // Appends the parts of one slice of the tensor to `boxes`. A slice is the
  // complete tensor, or the layers of one pipeline stage. It begins at index
  // `begin` of dimension `dim`. `ranks` are the pipeline ranks that hold it.
  // Returns false after a finding.
  bool AddSlice(const Spec& spec, const Shape& shape, const ReadParam& param,
                size_t dim, int64_t begin, std::vector<int32_t> ranks,
                TensorLayout& laid, std::vector<Box>& boxes) {
    auto cut = Partition::Make(spec, shape, job_.index.mesh, param.uneven);
    if (!cut) {
      RefuseSpec(spec, {}, shape, param);
      return false;
    }
    const auto first = static_cast<int64_t>(boxes.size());
    for (int64_t i = 0; i < cut->parts(); ++i) {
      Box box = cut->BoxOf(i);
      if (begin > 0) box.offset[dim] += begin;
      boxes.push_back(std::move(box));
    }
    laid.slices.push_back({std::move(*cut), first, std::move(ranks)});
    return true;
  }

  // Sets the shape and the sources of a tensor whose dimensions have the parts
  // `parts`. Returns false after a finding: the tensor is read from or written
  // to a tree, whose chunks are ranges of complete dimensions, or a piece of an
  // earlier split is no range of a part.
  bool SetPlaces(const StoredTensor& tensor, const ReadParam& param,
                 const DimParts& parts, TransferTensor& moved) {
    const auto refuse = [&](const std::string& what, std::string help) {
      findings_.Add(code::kInexpressible, param.place,
                    ShortQuote(param.name) + " " + what, std::move(help));
      return false;
    };
    const Spec& spec = param.SpecOf(mode_);
    if (!DividesParts(tensor.shape, spec, parts, param.uneven)) {
      RefuseSpec(spec, parts, tensor.shape, param);
      return false;
    }
    if (!parts.empty() && (tensor.array || options_.tree)) {
      return refuse(
          "is divided in each of several parts of a dimension (`parts` " +
              DimPartsText(parts) + "), and a chunk of a tree is one range",
          tensor.array ? "write the tree to safetensors files with `shardc "
                         "checkpoint merge` first, and split these"
                       : "leave out `--as`, to write safetensors files");
    }
    if (PlacePieces(tensor, parts, StatedSizes::kWhereOneIs, moved) ||
        (!options_.tree &&
         PlacePieces(tensor, parts, StatedSizes::kAll, moved))) {
      return true;
    }
    return refuse(
        "was split" + InPartsText(tensor.dim_parts) +
            ", and the plan splits it " +
            (parts.empty() ? "as one part" : "as" + InPartsText(parts)) +
            ": a shard of one is several shards of the other",
        "merge the checkpoint with `shardc checkpoint merge`, and split the "
        "result");
  }

  // Which equal parts of dimensions are treated as parts with stated sizes.
  enum class StatedSizes : uint8_t {
    kWhereOneIs,  // those of a dimension whose other parts have stated sizes
    kAll          // all: a piece may then have several ranges of a dimension
  };

  // Sets the shape, the parts and the sources of a tensor that is split in
  // `parts`. Returns false if a piece of it is not a box then.
  bool PlacePieces(const StoredTensor& tensor, const DimParts& parts,
                   StatedSizes stated, TransferTensor& moved) const {
    DimParts from = tensor.dim_parts, to = parts;
    StateSizes(tensor.shape, stated, from, to);
    moved.dim_parts = EqualAmong(to);
    moved.shape = SplitShape(tensor.shape, moved.dim_parts);
    moved.sized_parts = SizedPartsOf(to);
    moved.sized_sources.clear();
    for (size_t dim = 0; dim < from.size(); ++dim) {
      if (from[dim].sizes.empty()) continue;
      moved.sized_sources[SplitDim(dim, moved.dim_parts)] = from[dim].sizes;
    }
    // A tree is written from boxes that are one range of each dimension.
    if (options_.tree && !moved.sized_sources.empty()) return false;
    moved.sources.clear();
    for (SourcePiece piece : tensor.pieces) {
      auto box = BoxInShares(piece.box, tensor.shape, tensor.dim_parts, from);
      if (box) {
        box = BoxInParts(*box, tensor.shape, EqualAmong(from), moved.dim_parts);
      }
      if (!box) return false;
      piece.box = std::move(*box);
      moved.sources.push_back(std::move(piece));
    }
    return true;
  }

  // Returns whether the parts sum to the sizes of the shape, and the axes of
  // the spec divide each of them. With `uneven`, only parts with stated sizes
  // need be divided.
  bool DividesParts(const Shape& shape, const Spec& spec, const DimParts& parts,
                    bool uneven) const {
    if (parts.empty()) return true;
    if (!PartsDivide(parts, shape)) return false;
    const EqualParts equal = EqualAmong(parts);
    if (!uneven && !DividesEvenly(job_.index.mesh, SplitShape(shape, equal),
                                  SplitSpec(spec, equal))) {
      return false;
    }
    for (size_t dim = 0; dim < parts.size(); ++dim) {
      for (const int64_t size : parts[dim].sizes) {
        if (!DividesEvenly(job_.index.mesh, {size}, {spec[dim]})) return false;
      }
    }
    return true;
  }

  // States the sizes of equal parts, so that the elements of both splits are
  // ranges of one dimension.
  static void StateSizes(const Shape& shape, StatedSizes stated, DimParts& from,
                         DimParts& to) {
    // The most parts of which a piece has ranges.
    constexpr int64_t kMostStated = 1 << 12;
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      const bool all = stated == StatedSizes::kAll ||
                       !PartsAt(from, dim).sizes.empty() ||
                       !PartsAt(to, dim).sizes.empty();
      for (DimParts* const parts : {&from, &to}) {
        if (!all || dim >= parts->size()) continue;
        PartsOfDim& of = (*parts)[dim];
        if (!of.several() || of.count > kMostStated) continue;
        of.sizes = SizesOfParts(of, shape[dim]).value_or(of.sizes);
      }
    }
  }

  // Divides a tensor of this shape by a spec. A tensor that contains the layers
  // of several pipeline stages is first divided into these stages. `stage_dim`
  // is the dimension of the layers.
  std::optional<TensorLayout> LaidOf(Spec spec, const Shape& whole,
                                     const ReadParam& param, size_t stage_dim,
                                     std::vector<Box>& boxes) {
    TensorLayout laid;
    const bool sliced = plan_.stages && param.stages.dim;
    const size_t dim = sliced ? stage_dim : 0;
    if (plan_.stages)
      laid.stage_axis = *job_.index.mesh.Find(plan_.stages->axis);
    if (!sliced || param.stages.dims > 1) {
      std::vector<int32_t> ranks;
      if (sliced) {
        spec.resize(std::max(spec.size(), dim + 2));
        spec[dim + 1].insert(spec[dim + 1].begin(), plan_.stages->axis);
      } else if (plan_.stages) {
        ranks = RanksOf(*plan_.stages, param.stages);
      }
      if (!AddSlice(spec, whole, param, 0, 0, std::move(ranks), laid, boxes)) {
        return std::nullopt;
      }
      return laid;
    }
    std::set<int32_t> taken;
    for (const StageShare& share : param.stages.of) {
      Shape shape = whole;
      shape[dim] = share.end - share.begin;
      const auto& ranks = plan_.stages->of[AsIndex(share.stage)].ranks;
      for (const int32_t rank : ranks) {
        if (taken.insert(rank).second) continue;
        findings_.Add(code::kSpec, param.place,
                      "rank " + std::to_string(rank) +
                          " has several ranges of layers of `" + param.name +
                          "`, and a file holds one part of a tensor",
                      "take a schedule with one stage on a rank, such as 1f1b");
        return std::nullopt;
      }
      if (!AddSlice(spec, shape, param, dim, share.begin, ranks, laid, boxes)) {
        return std::nullopt;
      }
    }
    return laid;
  }

  void AddTensor(const StoredTensor& tensor, const ReadParam& param) {
    const Spec& spec = param.SpecOf(mode_);
    const DimParts parts = ShardedParts(param.parts, spec);
    TransferTensor moved;
    if (!SetPlaces(tensor, param, parts, moved)) return;
    const auto stage_dim = AsIndex(param.stages.dim ? *param.stages.dim : 0);
    auto laid = LaidOf(SplitSpec(spec, moved.dim_parts), moved.shape, param,
                       SplitDim(stage_dim, moved.dim_parts), moved.parts);
    if (!laid) return;
    moved.name = param.name;
    moved.from = tensor.dtype;
    moved.to = CastTo(tensor.dtype, tensor.name, options_.dtype, findings_);
    moved.array = tensor.array;
    moved.places = tensor.places;
    moved.in_tree = tensor.in_tree;
    const auto fault =
        options_.tree ? std::nullopt : CheckByteBoundaries(moved);
    if (fault) {
      findings_.Add(
          code::kSpec, param.place, *fault,
          "its elements are packed: split it along another dimension");
      return;
    }
    if (param.placement) {
      laid->placement = {*job_.index.mesh.Find(param.placement->axis),
                         param.placement->coordinate};
    }
    layouts_.push_back(std::move(*laid));
    IndexedParam indexed{moved.name, tensor.shape,    moved.to, spec,
                         parts,      param.placement, {}};
    if (plan_.stages) {
      indexed.ranks = {plan_.stages->axis,
                       RanksOf(*plan_.stages, param.stages)};
    }
    job_.index.params.push_back(std::move(indexed));
    job_.transfer.tensors.push_back(std::move(moved));
  }

  bool CheckSize() {
    const int64_t pieces =
        job_.index.mesh.devices * static_cast<int64_t>(layouts_.size());
    if (pieces <= kMaxPieces) return true;
    findings_.Add(code::kLimit, plan_.mesh_place,
                  CountText(static_cast<int64_t>(layouts_.size())) +
                      " parameters on " + CountText(job_.index.mesh.devices) +
                      " devices are " + CountText(pieces) +
                      " shards, more than the " + CountText(kMaxPieces) +
                      " that one run can make",
                  "take some of the parameters at a time with --params");
    return false;
  }

  // Adds devices to those that hold the piece `key` of a file.
  static void AddHolders(const std::vector<int64_t>& devices,
                         const std::string& key, IndexedFile& file) {
    const auto piece =
        std::find_if(file.pieces.begin(), file.pieces.end(),
                     [&](const IndexedPiece& one) { return one.key == key; });
    piece->devices.insert(piece->devices.end(), devices.begin(), devices.end());
    std::sort(piece->devices.begin(), piece->devices.end());
  }

  bool AddFile(FileLayout file) {
    IndexedFile indexed{file.name, 0, std::move(file.devices), {}};
    OutputFile output;
    output.name = file.name;
    std::vector<HeaderEntry> entries;
    std::set<std::string> keys;
    int64_t offset = 0;
    for (PartLayout& part : file.parts) {
      const TransferTensor& tensor = job_.transfer.tensors[part.tensor];
      const Box& box = tensor.parts[part.part];
      const bool sliced =
          options_.per == Per::kProcess && tensor.parts.size() > 1;
      std::string key = sliced ? SliceName(tensor.name, box) : tensor.name;
      if (!keys.insert(key).second) {
        // Several empty parts of a tensor may have the same range.
        if (box.Elements() == 0) {
          AddHolders(part.devices, key, indexed);
          continue;
        }
        findings_.Add(code::kName, {},
                      "`" + key + "` would be in `" + file.name + "` twice",
                      "use --per device or --per shard");
        return false;
      }
      const int64_t bytes = PartBytes(tensor, box);
      entries.push_back(
          {key, tensor.to, JoinShape(box.shape, tensor.dim_parts), bytes});
      output.pieces.push_back({part.tensor, part.part, offset, bytes});
      indexed.pieces.push_back({part.tensor, std::move(key), box, std::nullopt,
                                std::move(part.devices)});
      offset += bytes;
    }
    output.header =
        SafetensorsHeaderText(entries, file_metadata_, kDataAlignment);
    const auto data = static_cast<int64_t>(output.header.size());
    for (OutputPiece& piece : output.pieces) piece.offset += data;
    output.size = indexed.bytes = data + offset;
    job_.transfer.outputs.push_back(std::move(output));
    job_.index.files.push_back(std::move(indexed));
    return true;
  }

  const Stored& stored_;
  const ReadPlan& plan_;
  const ShardOptions& options_;
  Findings& findings_;
  // The metadata of each file, without the record of the tree from which the
  // tensors were converted (shards_index.h). Only the index has this record.
  const Metadata file_metadata_;
  Mode mode_;
  ShardJob job_;
  std::unordered_map<std::string, const ReadParam*> params_;  // by name
  std::unordered_map<const ReadParam*, const StoredTensor*> tensors_;
  std::unordered_map<const StoredTensor*, const ReadParam*> matched_;
  std::vector<std::pair<const StoredTensor*, const ReadParam*>> chosen_;
  std::vector<TensorLayout> layouts_;
  int64_t dtype_differs_ = 0;
  std::string dtype_example_;
};

}  // namespace

Dtype CastTo(Dtype from, const std::string& name, const DtypeOf& wanted,
             Findings& findings) {
  const auto to = wanted ? wanted(name) : std::nullopt;
  if (!to || to->dtype == from) return from;
  if (CanConvert(from, to->dtype)) return to->dtype;
  if (to->by_name) {
    findings.Add(code::kDtype, {},
                 "tensor " + ShortQuote(name) + " is " +
                     std::string(DtypeName(from)) + ", and is not cast to " +
                     std::string(DtypeName(to->dtype)),
                 "only floating-point tensors are cast: make the pattern of "
                 "`--cast` match no others");
  }
  return from;
}

void AddNothingSelected(size_t params, Findings& findings) {
  findings.Add(code::kUsage, {},
               "--params matches none of the " +
                   Counted(static_cast<int64_t>(params), "parameter"),
               "it is matched against the names in the checkpoint; `shardc "
               "checkpoint list` prints them");
}

std::optional<ShardJob> PlanShards(const Stored& stored, const ReadPlan& plan,
                                   const ShardOptions& options,
                                   Findings& findings) {
  return Planner(stored, plan, options, findings).Plan();
}

void WriteFinishedIndex(const ShardsIndex& index, const Checksums& checksums,
                        Sink& out) {
  ShardsIndex finished = index;
  for (size_t i = 0; i < finished.files.size(); ++i) {
    for (size_t k = 0; k < finished.files[i].pieces.size(); ++k) {
      finished.files[i].pieces[k].checksum = checksums[i][k];
    }
  }
  WriteShardsIndex(finished, out);
}

// Assigns the tensors of a merge to files, in the order of the tensors. A new
// file begins when the next tensor would exceed the size limit of a file. A
// tensor that is larger than the limit gets its own file.
//
//   6, 5 and 4 MB in files of at most 10 MB  ->  {6}, {5, 4}: the files
//   model-00001-of-00002 and model-00002-of-00002, with an index

namespace {

constexpr std::string_view kIndexName = "model.safetensors.index.json";

std::string Digits(size_t number) {
  const std::string text = std::to_string(number);
  return std::string(text.size() < 5 ? 5 - text.size() : 0, '0') + text;
}

// Divides the tensors, in their order, into files of at most `most` bytes of
// data, or into one file if `most` is nullopt. A tensor that is larger than
// `most` gets its own file. Returns the indices of the tensors in each file.
std::vector<std::vector<uint32_t>> Deal(const Transfer& transfer,
                                        std::optional<int64_t> most) {
  std::vector<std::vector<uint32_t>> files(1);
  int64_t used = 0;
  for (uint32_t i = 0; i < transfer.tensors.size(); ++i) {
    const TransferTensor& tensor = transfer.tensors[i];
    const int64_t bytes = PartBytes(tensor, tensor.parts[0]);
    if (most && !files.back().empty() && bytes > *most - used) {
      files.emplace_back();
      used = 0;
    }
    files.back().push_back(i);
    used += bytes;
  }
  return files;
}

OutputFile MakeOutput(const Transfer& transfer, std::string name,
                      const std::vector<uint32_t>& tensors,
                      const Metadata& metadata) {
  OutputFile output;
  output.name = std::move(name);
  std::vector<HeaderEntry> entries;
  int64_t offset = 0;
  for (const uint32_t index : tensors) {
    const TransferTensor& tensor = transfer.tensors[index];
    const int64_t bytes = PartBytes(tensor, tensor.parts[0]);
    entries.push_back({tensor.name, tensor.to,
                       JoinShape(tensor.shape, tensor.dim_parts), bytes});
    output.pieces.push_back({index, 0, offset, bytes});
    offset += bytes;
  }
  output.header = SafetensorsHeaderText(entries, metadata);
  const auto data = static_cast<int64_t>(output.header.size());
  for (OutputPiece& piece : output.pieces) piece.offset += data;
  output.size = data + offset;
  return output;
}

void SetPlaces(const MergeOptions& options, Transfer& transfer) {
  if (options.max_file_bytes) {
    transfer.directory = options.out;
    transfer.tag = "merge";
    transfer.series = {"model-"};
    return;
  }
  const size_t slash = options.out.rfind('/');
  transfer.directory = slash == std::string::npos ? "."
                       : slash == 0               ? "/"
                                    : options.out.substr(0, slash);
  transfer.tag = options.out.substr(slash == std::string::npos ? 0 : slash + 1);
}

}  // namespace

std::optional<Transfer> PlanMerge(const Stored& stored,
                                  const MergeOptions& options,
                                  Findings& findings) {
  const size_t before = findings.errors();
  Transfer transfer;
  SetPlaces(options, transfer);
  transfer.sources = stored.files;
  transfer.tree = stored.tree;
  for (const StoredTensor& tensor : stored.tensors) {
    if (options.select && !options.select(tensor.name)) continue;
    TransferTensor moved;
    moved.name = tensor.name;
    moved.dim_parts = EqualAmong(tensor.dim_parts);
    moved.shape = SplitShape(tensor.shape, moved.dim_parts);
    moved.sized_sources = SizedPartsOf(tensor.dim_parts);
    moved.from = tensor.dtype;
    moved.to = CastTo(tensor.dtype, tensor.name, options.dtype, findings);
    moved.sources = tensor.pieces;
    moved.array = tensor.array;
    moved.places = tensor.places;
    moved.in_tree = tensor.in_tree;
    if (options.tree && !tensor.dim_parts.empty()) {
      findings.Add(code::kInexpressible, {MakeSource(stored.path, {})},
                   ShortQuote(tensor.name) +
                       " was split in each of several parts of a dimension, "
                       "and a tree is written from ranges of complete "
                       "dimensions",
                   "merge it to safetensors files first, and write the tree "
                   "from these");
      continue;
    }
    moved.parts = {FullBox(moved.shape)};
    const auto fault = options.tree ? std::nullopt : CheckByteBoundaries(moved);
    if (fault) {
      findings.Add(code::kSize, {}, *fault);
      return std::nullopt;
    }
    transfer.tensors.push_back(std::move(moved));
  }
  if (findings.errors() > before) return std::nullopt;
  if (options.select && transfer.tensors.empty()) {
    AddNothingSelected(stored.tensors.size(), findings);
    return std::nullopt;
  }
  const auto files = Deal(transfer, options.max_file_bytes);
  const Metadata rest = WithoutTreeRecord(stored.metadata);
  for (size_t i = 0; i < files.size(); ++i) {
    std::string name =
        options.max_file_bytes ? "model.safetensors" : transfer.tag;
    if (files.size() > 1) {
      name = "model-" + Digits(i + 1) + "-of-" + Digits(files.size()) +
             ".safetensors";
    }
    transfer.outputs.push_back(MakeOutput(transfer, std::move(name), files[i],
                                          i == 0 ? stored.metadata : rest));
  }
  if (files.size() > 1) transfer.index_name = std::string(kIndexName);
  return transfer;
}

void WriteHfIndex(const Transfer& transfer, Sink& out) {
  int64_t total = 0;
  for (const OutputFile& output : transfer.outputs) {
    for (const OutputPiece& piece : output.pieces) total += piece.bytes;
  }
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Member("metadata", Block("total_size", total));
  json.Key("weight_map");
  json.BeginObject(JsonLayout::kLines);
  for (const OutputFile& output : transfer.outputs) {
    for (const OutputPiece& piece : output.pieces) {
      json.Member(transfer.tensors[piece.tensor].name, output.name);
    }
  }
  json.EndObject();
  json.EndObject();
  out.Put('\n');
}

}  // namespace shardc
