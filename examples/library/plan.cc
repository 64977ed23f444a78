// Plans a model with the library: what each device holds, and what is wrong.
//
//   c++ -std=c++20 plan.cc -o plan $(pkg-config --cflags --libs shardc)
//   ./plan dp:2,fsdp:8,tp:4 rules.yaml model.safetensors.index.json
#include <shardc/shardc.h>

#include <cstdio>
#include <optional>

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  shardc::Findings findings;
  const auto mesh = shardc::ReadMesh(argv[1], findings);
  const auto manifest = shardc::ReadManifest(argv[3], findings);
  // `auto` and packs such as `builtin:llama` are chosen by the manifest's
  // names.
  const auto rules =
      shardc::ReadRules({argv[2]}, findings, manifest ? &*manifest : nullptr);
  std::optional<shardc::Plan> plan;
  if (mesh && rules && manifest) {
    plan = shardc::Compile(*mesh, *rules, *manifest, {}, findings);
  }
  if (!plan) {
    std::fputs(findings.Text()->c_str(), stderr);
    return 2;
  }
  for (size_t i = 0; i < plan->size(); ++i) {
    const auto placed = plan->placement(i, shardc::Mode::kTrain);
    std::printf("%s %s\n", std::string(plan->name(i)).c_str(),
                shardc::SpecText(placed->spec).c_str());
  }
  const auto bytes = plan->totals().bytes_per_device;
  if (bytes) std::printf("%lld\n", static_cast<long long>(*bytes));
  const auto checked = shardc::Check(*plan, {}, findings);
  if (checked) std::fputs(checked->findings.Text("concise")->c_str(), stdout);
  return checked && !checked->findings.HasErrors() ? 0 : 1;
}
