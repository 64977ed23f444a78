// A thread draws the line, so that commands that compute for long without a
// step to count show at least that they run, and for how long:
//
//   [###########                   ] 36/96 cases, prefill, 12 s
//   shardc report, 3 s
#include "cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "source/sink.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kErase = "\r\x1b[K";
constexpr auto kFirst = std::chrono::seconds(1);
constexpr auto kBetween = std::chrono::milliseconds(100);
constexpr size_t kBarWidth = 30;
constexpr size_t kUsualColumns = 80;

// A terminal has one line at a time that is redrawn. Functions that print erase
// it first, and they know nothing of the command that runs.
std::atomic<ProgressLine*> current = nullptr;
std::atomic<bool> is_drawn = false;

size_t Columns() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return kUsualColumns;
  }
  return size.ws_col;
}

bool Draws(const Common& common) {
  const char* const term = std::getenv("TERM");
  const bool dumb = term != nullptr && std::strcmp(term, "dumb") == 0;
  return !common.quiet && !dumb && isatty(STDERR_FILENO) == 1;
}

}  // namespace

ProgressLine::ProgressLine(const Common& common, std::string text)
    : start_(Clock::now()), text_(std::move(text)) {
  if (!Draws(common)) return;
  current = this;
  thread_ = std::thread([this] { DrawUntilEnd(); });
}

ProgressLine::~ProgressLine() {
  if (!thread_.joinable()) return;
  current = nullptr;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ends_.notify_all();
  thread_.join();
  Hide();
}

void ProgressLine::Show(std::string text, std::optional<double> part) {
  const std::lock_guard lock(mutex_);
  text_ = std::move(text);
  part_ = part;
  hidden_ = false;
}

void ProgressLine::Hide() {
  const std::lock_guard lock(mutex_);
  hidden_ = true;
  drawn_.clear();
  if (is_drawn.exchange(false)) WriteAll(STDERR_FILENO, kErase);
}

std::string ProgressLine::Line() const {
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - start_);
  std::string out;
  if (part_) {
    const auto filled = static_cast<size_t>(std::clamp(*part_, 0.0, 1.0) *
                                            static_cast<double>(kBarWidth));
    out = "[" + std::string(filled, '#') +
          std::string(kBarWidth - filled, ' ') + "] ";
  }
  const std::string end = ", " + std::to_string(seconds.count()) + " s";
  const size_t columns = Columns() - 1;
  const size_t rest = columns - std::min(columns, out.size() + end.size());
  return out + Printable(std::string_view(text_).substr(0, rest)) + end;
}

void ProgressLine::DrawUntilEnd() {
  std::unique_lock lock(mutex_);
  while (!ends_.wait_for(lock, kBetween, [this] { return ended_; })) {
    if (hidden_ || Clock::now() - start_ < kFirst) continue;
    std::string line = Line();
    if (line == drawn_) continue;
    drawn_ = std::move(line);
    is_drawn = true;
    WriteAll(STDERR_FILENO, std::string(kErase) + drawn_);
  }
}

void HideProgress() {
  if (ProgressLine* const line = current) line->Hide();
}

void EraseProgressInSignal() {
  if (is_drawn) (void)!::write(STDERR_FILENO, kErase.data(), kErase.size());
}

void ShowStage(const Common& common, std::string text) {
  if (common.progress != nullptr) common.progress->Show(std::move(text));
}

std::function<void(size_t done, size_t all, const std::string& within)>
CountedProgress(const Common& common, std::string_view what) {
  if (common.progress == nullptr) return {};
  return [line = common.progress, what](size_t done, size_t all,
                                        const std::string& within) {
    std::string text = std::to_string(done) + "/" + std::to_string(all) + " " +
                       std::string(what);
    if (!within.empty()) text += ", " + within;
    line->Show(std::move(text),
               static_cast<double>(done) /
                   static_cast<double>(std::max<size_t>(all, 1)));
  };
}

}  // namespace shardc::cli
