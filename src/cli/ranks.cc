// Runs a command on the processes that a launcher has started. The launcher
// sets environment variables with the rank of each process. MPI is initialised
// only if there are several processes. Data is sent by MPI collectives in
// rounds, because MPI's counts have 32 bits:
//
//   OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4  ->  rank 2 of 4
//   no such variables, or a size of 1              ->  one process, no MPI
#include "cli/ranks.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

#include "source/process.h"
#include "source/size.h"

#ifdef SHARDC_MPI
#include <mpi.h>
#endif

namespace shardc::cli {
namespace {

// SLURM sets SLURM_PROCID in a batch script too, so the number of processes is
// read from a variable that only processes of srun have.
constexpr Launcher kLaunchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
};

#ifdef SHARDC_MPI

// The most bytes that a rank sends to another rank in one round.
constexpr size_t kRound = size_t{1} << 26;

class Mpi : public exec::Transport {
 public:
  Mpi() {
    int given = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }
  ~Mpi() override { MPI_Finalize(); }
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  std::vector<exec::Packet> Exchange(std::vector<exec::Packet> out) override {
    std::vector<uint64_t> going(Count()), coming(Count());
    for (size_t r = 0; r < Count(); ++r) going[r] = out[r].size();
    MPI_Alltoall(going.data(), 1, MPI_UINT64_T, coming.data(), 1, MPI_UINT64_T,
                 MPI_COMM_WORLD);
    std::vector<exec::Packet> in = RoomFor(coming);
    const uint64_t end = MostOfAll(going);
    for (size_t begin = 0; begin < end; begin += Limit()) {
      Piece send = PieceOf(going, begin);
      Piece take = PieceOf(coming, begin);
      for (size_t r = 0; r < Count(); ++r) {
        std::copy_n(out[r].data() + std::min(begin, out[r].size()),
                    send.counts[r], send.bytes.data() + send.places[r]);
      }
      MPI_Alltoallv(send.bytes.data(), send.counts.data(), send.places.data(),
                    MPI_BYTE, take.bytes.data(), take.counts.data(),
                    take.places.data(), MPI_BYTE, MPI_COMM_WORLD);
      CopyOut(take, begin, in);
    }
    return in;
  }

  std::vector<exec::Packet> Share(const exec::Packet& own) override {
    const uint64_t size = own.size();
    std::vector<uint64_t> coming(Count());
    MPI_Allgather(&size, 1, MPI_UINT64_T, coming.data(), 1, MPI_UINT64_T,
                  MPI_COMM_WORLD);
    std::vector<exec::Packet> in = RoomFor(coming);
    const uint64_t end = *std::max_element(coming.begin(), coming.end());
    for (size_t begin = 0; begin < end; begin += Limit()) {
      Piece take = PieceOf(coming, begin);
      const size_t from = std::min(begin, own.size());
      MPI_Allgatherv(own.data() + from,
                     static_cast<int>(std::min(Limit(), own.size() - from)),
                     MPI_BYTE, take.bytes.data(), take.counts.data(),
                     take.places.data(), MPI_BYTE, MPI_COMM_WORLD);
      CopyOut(take, begin, in);
    }
    return in;
  }

  [[noreturn]] void Stop(const std::string& why) override {
    std::string text =
        "error: rank " + std::to_string(rank_) + ": " + why + "\n";
    (void)!std::fwrite(text.data(), 1, text.size(), stderr);
    MPI_Abort(MPI_COMM_WORLD, kFailed);
    std::abort();
  }

  static int OnMachine() {
    MPI_Comm here = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL,
                        &here);
    int count = 1;
    MPI_Comm_size(here, &count);
    MPI_Comm_free(&here);
    return count;
  }

 private:
  // The most bytes of one MPI call. It keeps counts and displacements, which
  // are 32-bit integers in MPI, from overflowing.
  static constexpr size_t kMost = size_t{1} << 30;

  struct Piece {
    std::vector<int> counts, places;
    exec::Packet bytes;
  };

  size_t Count() const { return AsIndex(ranks_); }

  // Returns the most bytes that one rank sends to another in a round. The bytes
  // for all ranks together must fit in one MPI call.
  size_t Limit() const { return std::min(kRound, kMost / Count()); }

  // Returns the largest of the sizes of all ranks.
  static uint64_t MostOfAll(const std::vector<uint64_t>& sizes) {
    const uint64_t own = *std::max_element(sizes.begin(), sizes.end());
    uint64_t most = 0;
    MPI_Allreduce(&own, &most, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    return most;
  }

  static std::vector<exec::Packet> RoomFor(const std::vector<uint64_t>& sizes) {
    std::vector<exec::Packet> out;
    for (const uint64_t size : sizes) out.emplace_back(size);
    return out;
  }

  // Returns a buffer for one round, with the number and the position of each
  // rank's bytes in it. `begin` is the number of bytes that earlier rounds have
  // sent to a rank.
  Piece PieceOf(const std::vector<uint64_t>& sizes, size_t begin) const {
    Piece out;
    size_t at = 0;
    for (const uint64_t size : sizes) {
      const size_t count = size > begin ? std::min(Limit(), size - begin) : 0;
      out.counts.push_back(static_cast<int>(count));
      out.places.push_back(static_cast<int>(at));
      at += count;
    }
    out.bytes.resize(at);
    return out;
  }

  // Copies the bytes that a round received into each rank's packet, beginning
  // at byte `begin` of the packet.
  static void CopyOut(const Piece& piece, size_t begin,
                      std::vector<exec::Packet>& out) {
    for (size_t r = 0; r < out.size(); ++r) {
      std::copy_n(piece.bytes.data() + piece.places[r], piece.counts[r],
                  out[r].data() + std::min(begin, out[r].size()));
    }
  }

  int rank_ = 0, ranks_ = 1;
};

#endif  // SHARDC_MPI

// Adds a finding on the first rank only, so that it is printed once.
void Refuse(const Launched& launched, std::string message, std::string help,
            Findings& findings) {
  if (launched.rank != 0) return;
  findings.Add(code::kUsage, {}, std::move(message), std::move(help));
}

}  // namespace

Launched LaunchedAs(const Variable& variable) {
  for (const Launcher& launcher : kLaunchers) {
    const auto seat = SeatBy(launcher, variable);
    if (!seat || seat->count < 2) continue;
    return {seat->index, seat->count, launcher.count};
  }
  return {};
}

std::optional<Ranks> Ranks::Join(Findings& findings) {
  const Launched launched =
      LaunchedAs([](const char* name) { return std::getenv(name); });
  Ranks out;
  if (launched.ranks == 1) return out;
#ifdef SHARDC_MPI
  auto mpi = std::make_unique<Mpi>();
  if (mpi->ranks() != launched.ranks) {
    Refuse(launched,
           std::string(launched.by) + " reports " +
               std::to_string(launched.ranks) + " processes and MPI " +
               std::to_string(mpi->ranks()),
           "start them with the mpirun of the MPI that shardc was built with, "
           "or with srun --mpi=pmix",
           findings);
    return std::nullopt;
  }
  out.on_machine_ = Mpi::OnMachine();
  out.transport_ = std::move(mpi);
  return out;
#else
  Refuse(launched,
         "verify was started as " + std::to_string(launched.ranks) +
             " processes, and this shardc was built without MPI",
         "start it once, or build it with `meson configure -Dmpi=enabled`",
         findings);
  return std::nullopt;
#endif
}

int Ranks::Threads(int wanted) const {
  if (wanted > 0) return wanted;
  return std::max(1, ThreadsOr(0) / on_machine_);
}

std::string Ranks::MovedText(int64_t recorded, int64_t moved,
                             int64_t crossed) const {
  return "note: " + std::to_string(count()) + " ranks exchanged " +
         std::to_string(moved) + " bytes between devices, the ledger records " +
         std::to_string(recorded) + "; " + std::to_string(crossed) +
         " of them went to another rank by MPI\n";
}

bool Ranks::All(bool fine, Findings& findings) const {
  if (transport_ == nullptr) return fine;
  bool all = true;
  int first = -1;  // first rank that failed, or -1
  const auto fine_on = transport_->Share({std::byte{fine}});
  for (int rank = 0; rank < transport_->ranks(); ++rank) {
    if (fine_on[AsIndex(rank)] == exec::Packet{std::byte{1}}) continue;
    all = false;
    if (first < 0) first = rank;
  }
  if (!all && transport_->rank() != first) findings = Findings();
  return all;
}

int64_t Ranks::Least(int64_t own) const {
  if (transport_ == nullptr) return own;
  exec::Packet mine;
  exec::PutAll(std::span(&own, 1), mine);
  int64_t least = own;
  for (const exec::Packet& of : transport_->Share(mine)) {
    std::span<const std::byte> left(of);
    if (exec::TakeAll(left, std::span(&own, 1))) least = std::min(least, own);
  }
  return least;
}

int Ranks::End(int status, Findings& findings) const {
  if (Leads()) return status;
  findings = Findings();
  return kDone;
}

}  // namespace shardc::cli
