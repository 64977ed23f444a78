// Writes a CI workflow for GitHub that checks a project. The workflow downloads
// shardc and runs `shardc check --locked`. The workflow contains the SHA-256
// digest of the program that wrote it, and refuses a download with another
// digest. Actions are pinned by commit.
//
// A project may be a subfolder of a repository that already has a workflow
// shardc.yaml. The new file is then named after the project. For example, for
// the project llama in the folder models/llama:
//
//   shardc.yaml already exists  ->  .github/workflows/shardc-llama.yaml
#include "cli/workflow.h"

#include <filesystem>
#include <string_view>
#include <system_error>

#include "cli/own_program.h"
#include "source/boundary.h"
#include "source/digest.h"
#include "source/json_writer.h"

namespace shardc::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBeforeDigest =
    R"(# Checks the sharding of every change: no weights, no accelerator.
#
# The variable SHARDC_URL of the repository is where CI downloads the
# program. It must be the one that wrote this file: its digest is
# compared. After an upgrade write `sha256sum shardc` below.
name: sharding
on: [push, pull_request]
permissions:
  contents: read
jobs:
  check:
    runs-on: ubuntu-24.04
    steps:
      - uses: actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683  # v4.2.2
        with:
          persist-credentials: false
      - name: Download shardc
        env:
          SHARDC_URL: ${{ vars.SHARDC_URL }}
          SHARDC_SHA256: )";

constexpr std::string_view kAfterDigest = R"(
        run: |
          curl --fail --silent --show-error --location --proto '=https' \
            --output "$RUNNER_TEMP/shardc" "$SHARDC_URL"
          echo "$SHARDC_SHA256  $RUNNER_TEMP/shardc" | sha256sum --check --strict
          chmod +x "$RUNNER_TEMP/shardc"
      - name: Check
        run: '"$RUNNER_TEMP/shardc" check --locked --format github'
)";

// Returns the SHA-256 of this program, with which the workflow compares its
// download.
std::optional<std::string> OwnDigest(Findings& findings) {
  const SourceRef program = ReadOwnProgram(findings);
  if (program == nullptr) return std::nullopt;
  return Sha256(program->text());
}

// Returns the workflow file. `folder` is the project's folder, relative to the
// repository's root; empty for the root itself.
std::string WorkflowText(const std::string& digest, const std::string& folder) {
  std::string text = std::string(kBeforeDigest) + digest;
  text += kAfterDigest;
  if (folder.empty() || folder == ".") return text;
  return text + "        working-directory: " + JsonString(folder) + "\n";
}

}  // namespace

std::optional<NewFile> CheckWorkflow(const std::string& folder,
                                     const std::string& name,
                                     Findings& findings) {
  const auto digest = OwnDigest(findings);
  if (!digest) return std::nullopt;
  std::error_code error;
  const fs::path here = fs::absolute(folder, error).lexically_normal() / "";
  const std::string found = RepositoryRoot(folder);
  const fs::path root = found.empty() ? here : fs::path(found);
  if (here.parent_path() == (root / "").parent_path()) {
    return NewFile{".github/workflows/shardc.yaml", WorkflowText(*digest, "")};
  }
  const fs::path workflows = root / ".github" / "workflows";
  fs::path file = workflows / "shardc.yaml";
  if (fs::symlink_status(file, error).type() != fs::file_type::not_found &&
      !LeftFiles::Of(folder).Holds(file.string())) {
    file = workflows / ("shardc-" + name + ".yaml");
  }
  const std::string below =
      here.parent_path().lexically_relative(root / "").generic_string();
  return NewFile{file.string(), WorkflowText(*digest, below)};
}

}  // namespace shardc::cli
