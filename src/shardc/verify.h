// Runs the attention that a mesh implies on simulated devices, and compares it
// with the dense reference in double precision.
#ifndef SHARDC_SHARDC_VERIFY_H_
#define SHARDC_SHARDC_VERIFY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardc/findings.h"
#include "shardc/mesh.h"
#include "shardc/rules.h"
#include "shardc/spec.h"

namespace shardc::SHARDC_V1 {

struct AttentionSizes {
  int64_t batch = 1;
  int64_t query_length = 1;  // at most key_length
  int64_t key_length = 1;
  int64_t heads = 1;
  int64_t key_heads = 1;  // divides heads
  int64_t head_dim = 128;
};

struct VerifyOptions {
  AttentionSizes sizes = {};
  std::vector<std::string> operations = {};  // empty: all
  std::vector<Mode> modes = {};              // empty: all
  std::vector<std::string> layouts = {};     // bthd, bhtd, thd; empty: all
  // The dtypes to run, of float32, bfloat16 and float16. Empty: all three.
  std::vector<std::string> dtypes = {};
  uint64_t seed = 0;  // of the random numbers
  bool full = false;  // run the given sizes, not reduced ones
  int threads = 1;    // never changes the result
};

enum class Verdict { kPass, kFail, kUnsupported };

struct VerifiedCase {
  std::string operation;
  Mode mode = Mode::kTrain;
  std::string layout;
  std::string dtype;  // as in safetensors: "BF16"
  Verdict verdict = Verdict::kPass;
  std::string reason;      // of a failure, or why it is unsupported
  double error = 0;        // largest absolute error
  double allowed = 0;      // the tolerance of `error`
  int64_t bytes_sent = 0;  // by the device that sends most
};

struct VerifyReport {
  std::vector<VerifiedCase> cases;
  int64_t passed = 0;
  int64_t failed = 0;
  int64_t unsupported = 0;
  std::string text;  // what `shardc verify` prints
  std::string json;  // shardc.verify/v1
};

// Verifies the operations and modes of `options`. Errors include an unknown
// name, sizes that do not divide, and a run that would need too much memory. A
// failed case is not an error.
std::optional<VerifyReport> Verify(const Mesh& mesh, const Rules& rules,
                                   const VerifyOptions& options,
                                   Findings& findings);

}  // namespace shardc::SHARDC_V1

#endif  // SHARDC_SHARDC_VERIFY_H_
