// Checks split, merge and reshard with random checkpoints and meshes: every
// piece must equal the slice of the tensor that is copied element by element,
// and merging must restore the first file byte for byte.
#include "round_trip.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "model/manifest.h"
#include "model/mesh_layout.h"
#include "source/file.h"
#include "stored/checksum.h"

namespace shardc {

namespace fs = std::filesystem;

std::string Get(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

void WriteCheckpoint(const Sample& sample, const std::string& path) {
  std::vector<HeaderEntry> entries;
  std::string data;
  for (const RandomTensor& tensor : sample.tensors) {
    entries.push_back({tensor.name, tensor.dtype, tensor.shape,
                       static_cast<int64_t>(tensor.bytes.size())});
    data += tensor.bytes;
  }
  std::ofstream(path, std::ios::binary)
      << SafetensorsHeaderText(entries, sample.metadata) << data;
}

// Copies element `at` of one array to element `to` of another one, whose bits
// are zero. The arrays are pointers for speed: the function runs for every
// element of every piece.
void CopyElement(const char* from, int64_t at, int bits, int64_t to,
                 char* out) {
  if (bits % 8 == 0) {
    std::copy_n(from + at * (bits / 8), bits / 8, out + to * (bits / 8));
    return;
  }
  for (int bit = 0; bit < bits; ++bit) {
    const int64_t source = at * bits + bit, target = to * bits + bit;
    const int value = from[source / 8] >> (source % 8) & 1;
    out[target / 8] =
        static_cast<char>(out[target / 8] | value << (target % 8));
  }
}

// Returns the bytes of a box of the tensor, copied element by element.
std::string Slice(const RandomTensor& tensor, const Box& box) {
  const int bits = DtypeBits(tensor.dtype);
  const int64_t count = box.Elements();
  const size_t rank = tensor.shape.size();
  std::vector<int64_t> strides(rank, 1), at(rank, 0);
  for (size_t dim = rank; dim > 1; --dim) {
    strides[dim - 2] = strides[dim - 1] * tensor.shape[dim - 1];
  }
  int64_t index = 0;
  for (size_t dim = 0; dim < rank; ++dim) {
    index += box.offset[dim] * strides[dim];
  }
  std::string out(static_cast<size_t>(count * bits / 8), '\0');
  for (int64_t i = 0; i < count; ++i) {
    CopyElement(tensor.bytes.data(), index, bits, i, out.data());
    for (size_t dim = rank; dim > 0;) {
      --dim;
      index += strides[dim];
      if (++at[dim] < box.shape[dim]) break;
      index -= strides[dim] * box.shape[dim];
      at[dim] = 0;
    }
  }
  return out;
}

std::string Messages(const Findings& findings) {
  std::string out;
  for (const Finding& finding : findings.all()) out += finding.message + "; ";
  return out;
}

ShardsIndex ReadIndex(const std::string& directory) {
  Findings findings;
  const auto document = JsonDocument::Parse(
      ReadSource(directory + "/shards.json", findings), findings);
  REQUIRE(document != nullptr);
  auto index = ParseShardsIndex(*document, findings);
  REQUIRE(index);
  return std::move(*index);
}

// Compares every file and every piece with the tensors.
void CheckPieces(const Sample& sample, const std::string& directory) {
  const ShardsIndex index = ReadIndex(directory);
  for (const IndexedFile& file : index.files) {
    Findings findings;
    const std::string path = directory + "/" + file.name;
    const auto header = ReadSafetensorsHeader(path, false, findings);
    CAPTURE(Messages(findings));
    REQUIRE(header);
    CHECK(header->metadata == sample.metadata);
    const std::string bytes = Get(path);
    CHECK(static_cast<int64_t>(bytes.size()) == file.bytes);
    REQUIRE(header->entries.size() == file.pieces.size());
    for (size_t i = 0; i < file.pieces.size(); ++i) {
      const IndexedPiece& piece = file.pieces[i];
      const SafetensorsEntry& entry = header->entries[i];
      CHECK(entry.name == piece.key);
      const std::string held =
          bytes.substr(static_cast<size_t>(header->data_offset + entry.begin),
                       static_cast<size_t>(entry.end - entry.begin));
      const RandomTensor* tensor = nullptr;
      for (const RandomTensor& candidate : sample.tensors) {
        if (candidate.name == index.params[piece.param].name) {
          tensor = &candidate;
        }
      }
      REQUIRE(tensor != nullptr);
      CHECK(held == Slice(*tensor, piece.box));
      CHECK(piece.checksum == Crc32cByTable(held));
    }
  }
}

RunReport RunShards(const Stored& stored, const ReadPlan& plan,
                    const ShardOptions& options, const RunOptions& run) {
  Findings findings;
  const auto job = PlanShards(stored, plan, options, findings);
  CAPTURE(Messages(findings));
  REQUIRE(job);
  RunReport report;
  const bool good = RunTransfer(
      job->transfer,
      [&](const Checksums& sums, Sink& out) {
        WriteFinishedIndex(job->index, sums, out);
      },
      run, &report, findings);
  CAPTURE(Messages(findings));
  REQUIRE(good);
  CHECK(report.indexed);
  return report;
}

void RunMerge(const std::string& directory, const MergeOptions& options,
              const RunOptions& run) {
  Findings findings;
  const auto stored = ReadStoredPieces(directory, findings);
  CAPTURE(Messages(findings));
  REQUIRE(stored);
  int64_t verified = 0;
  CHECK(VerifyStored(*stored, {0, 1, {}}, &verified, findings));
  CHECK((verified > 0 || stored->tensors.empty()));
  // Each of two processes verifies its share of the pieces.
  int64_t first = 0, second = 0;
  CHECK(VerifyStored(*stored, {0, 2, {}}, &first, findings));
  CHECK(VerifyStored(*stored, {1, 2, {}}, &second, findings));
  CHECK(first + second == verified);
  const auto transfer = PlanMerge(*stored, options, findings);
  REQUIRE(transfer);
  RunReport report;
  REQUIRE(RunTransfer(
      *transfer,
      [&](const Checksums&, Sink& out) { WriteHfIndex(*transfer, out); }, run,
      &report, findings));
}

// Checks that each device reads exactly its boxes, from whichever files.
void CheckReaders(const ReadPlan& plan, const std::string& directory) {
  const ShardsIndex index = ReadIndex(directory);
  std::map<std::pair<int64_t, std::string>, Box> read;
  for (const IndexedFile& file : index.files) {
    for (const IndexedPiece& piece : file.pieces) {
      const auto& devices =
          piece.devices.empty() ? file.devices : piece.devices;
      for (const int64_t device : devices) {
        const auto key = std::pair(device, index.params[piece.param].name);
        CHECK(read.emplace(key, piece.box).second);
      }
    }
  }
  size_t want = 0;
  for (const ReadParam& param : plan.params) {
    const auto cut =
        Partition::Make(param.spec, *param.type.shape, plan.mesh, param.uneven);
    REQUIRE(cut);
    int64_t elements = 0;
    for (int64_t part = 0; part < cut->parts(); ++part) {
      elements += cut->BoxOf(part).Elements();
    }
    CHECK(elements == FullBox(*param.type.shape).Elements());
    for (int64_t device = 0; device < plan.mesh.devices; ++device) {
      const auto at = CoordinatesOf(plan.mesh, device);
      const Box box = cut->BoxOf(cut->PartOf(at));
      CHECK(read[{device, param.name}] == box);
      ++want;
    }
  }
  CHECK(read.size() == want);
}

void CheckRoundTrip(const Draws& draws) {
  Generator generator(draws);
  const Sample sample = generator.Make();
  const Folder folder;
  const std::string first = folder / "model.safetensors";
  WriteCheckpoint(sample, first);
  Findings findings;
  const auto stored = ReadStored(first, findings);
  REQUIRE(stored);
  const Per per = static_cast<Per>(generator.Pick(3));
  RunOptions run;
  run.threads = 1 + static_cast<int>(generator.Pick(3));
  run.verify = generator.Pick(2) == 0;
  run.sync = false;
  ShardOptions split;
  split.per = per;
  split.out = folder / "pieces";
  RunShards(*stored, sample.plans[0], split, run);
  CheckPieces(sample, split.out);
  CheckReaders(sample.plans[0], split.out);

  const auto pieces = ReadStoredPieces(split.out, findings);
  CAPTURE(Messages(findings));
  REQUIRE(pieces);
  ShardOptions reshard;
  reshard.per = static_cast<Per>(generator.Pick(3));
  reshard.out = folder / "again";
  RunShards(*pieces, sample.plans[1], reshard, run);
  CheckPieces(sample, reshard.out);
  CheckReaders(sample.plans[1], reshard.out);

  RunMerge(reshard.out, {folder / "out/back.safetensors", {}, {}, {}}, run);
  CHECK(Get(folder / "out/back.safetensors") == Get(first));
  // The merge must write the requested file and no other one.
  CHECK(std::distance(fs::directory_iterator(folder / "out"), {}) == 1);
}

}  // namespace shardc
