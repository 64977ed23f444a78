// The progress of a command: one line on a terminal, which is drawn from the
// second second on and erased before anything else is printed.
#ifndef SHARDC_CLI_PROGRESS_H_
#define SHARDC_CLI_PROGRESS_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "cli/command.h"

namespace shardc::cli {

// Draws the line on stderr while the object exists. It draws nothing with
// --quiet, if stderr is not a terminal, or if TERM is `dumb`. At most one
// object exists at a time.
class ProgressLine {
 public:
  // `text` is what runs, such as "shardc search".
  ProgressLine(const Common& common, std::string text);
  // Erases the line.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Sets what runs now, and which part of it, from 0 to 1, is done; nullopt if
  // that is not known. May be called from any thread.
  void Show(std::string text, std::optional<double> part = {});
  // Erases the line. It is drawn again after the next Show().
  void Hide();

 private:
  void DrawUntilEnd();
  // Returns the line, cut to the columns of the terminal.
  std::string Line() const;

  const std::chrono::steady_clock::time_point start_;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool hidden_ = false, ended_ = false;
  std::string text_, drawn_;
  std::optional<double> part_;
  std::thread thread_;  // runs only if the line is drawn
};

// Erases the line of the command that runs, if there is one. Output functions
// call it before they write to a terminal.
void HideProgress();
// The same for signal handlers, which may not wait for another thread.
void EraseProgressInSignal();

// Sets what the command does now, such as "proving the winner".
void ShowStage(const Common& common, std::string text);

// Returns a function that shows how many of all items are done, and what is
// done within one of them. `what` is the word for the items, such as "cases".
// The function is empty if nothing is drawn.
std::function<void(size_t done, size_t all, const std::string& within)>
CountedProgress(const Common& common, std::string_view what);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PROGRESS_H_
