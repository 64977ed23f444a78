// Small requests of a search, with given or random contents.
#ifndef SHARDC_TESTS_SEARCH_REQUESTS_H_
#define SHARDC_TESTS_SEARCH_REQUESTS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "draws.h"
#include "search/request.h"

namespace shardc::search {

struct Decoder {
  int64_t layers = 2, hidden = 1024, heads = 8, kv_heads = 4, mlp = 4096,
          vocab = 32000, experts = 0;
};

// Returns a request for a Llama model, or with experts a Mixtral model, with
// the model's pack and with suggested rules. The request has pointers to its
// own members.
std::unique_ptr<Request> RequestFor(const Decoder& decoder, int64_t devices,
                                    const std::string& profile, int64_t batch,
                                    int64_t length, int64_t memory);

// Returns a request with a random model, number of devices, accelerator,
// settings and memory.
std::unique_ptr<Request> DrawRequest(Draws& draws);

}  // namespace shardc::search

#endif  // SHARDC_TESTS_SEARCH_REQUESTS_H_
