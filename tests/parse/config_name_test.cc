// Names of configurations are written and read without loss.
#include "parse/config_name.h"

#include "doctest/doctest.h"

namespace shardc {
namespace {

TEST_CASE("a name of a configuration is read as it was written") {
  ConfigOrigin origin;
  origin.system = "megatron";
  origin.file = "a&b/train?%26.sh";
  origin.symbol = "f";
  origin.model = "config.json";
  origin.devices = 16;
  origin.set = {"a=1&2", "b=x"};
  const auto read = ParseConfigName(ConfigNameOf(origin));
  REQUIRE(read);
  CHECK(read->file == origin.file);
  CHECK(read->symbol == origin.symbol);
  CHECK(read->model == origin.model);
  CHECK(read->devices == origin.devices);
  CHECK(read->set == origin.set);
  CHECK(ConfigNameOf({.system = "vllm",
                      .file = "serve.sh",
                      .symbol = {},
                      .model = {},
                      .manifest = {},
                      .families = {},
                      .devices = {}}) == "config:vllm:serve.sh");
  for (const char* name : {"config:", "config:a", "config:a:", "config:a:b?c",
                           "config:a:b?devices=0", "mesh.yaml"}) {
    CAPTURE(name);
    CHECK_FALSE(ParseConfigName(name).has_value());
  }
}

}  // namespace
}  // namespace shardc
