// What is said when a long command is interrupted.
#ifndef SHARDC_CLI_INTERRUPT_H_
#define SHARDC_CLI_INTERRUPT_H_

#include <array>
#include <csignal>
#include <string>
#include <string_view>

namespace shardc::cli {

// While it lives, Ctrl-C, a termination and a lost terminal remove the files
// that are not whole yet and print `text` on standard error; the process then
// ends by the signal, as its caller expects. One inside another.
class InterruptNotice {
 public:
  explicit InterruptNotice(std::string text);
  ~InterruptNotice();
  InterruptNotice(const InterruptNotice&) = delete;
  InterruptNotice& operator=(const InterruptNotice&) = delete;

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::string text_;
  std::string_view text_before_;
  std::array<void (*)(int), kSignals.size()> before_{};
};

}  // namespace shardc::cli

#endif  // SHARDC_CLI_INTERRUPT_H_
