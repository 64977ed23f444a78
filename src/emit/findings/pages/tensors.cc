// The texts that `shardc explain CODE` prints about the headers and data of
// checkpoint files: safetensors files, GGUF files, and the index of a
// checkpoint of several files. For example, SHD053 is reported if a tensor of
// shape [3] and dtype F32 (12 bytes) has a range of 8 bytes in its file.
#include <array>

#include "emit/findings/pages/page.h"

namespace shardc {

std::span<const CodePage> TensorPages() {
  static constexpr std::array kPages = {
      CodePage{
          .code = &code::kHeader,
          .what = "Reports a safetensors or GGUF file, or a file of an orbax "
                  "or PyTorch checkpoint, whose header is truncated or is not "
                  "what the format requires.",
          .why = "The header holds every name, shape and offset. An incomplete "
                 "download and a Git LFS pointer in place of the file are the "
                 "usual causes.",
          .fix = "Download or copy the file again, and compare its size with "
                 "the original's.",
          .bad = R"($ head -c 100 /dev/zero > model.safetensors
$ shardc manifest --manifest model.safetensors
)",
          .good = R"($ printf '\2\0\0\0\0\0\0\0{}' > model.safetensors
$ shardc manifest --manifest model.safetensors
)"},
      CodePage{.code = &code::kDtype,
               .what = "Reports a data type that is not known.",
               .why = "Its width is needed for every size in bytes.",
               .fix =
                   "Use the names of safetensors (`BF16`, `F32`, `F8_E4M3`) or "
                   "of numpy (`bfloat16`, `float32`).",
               .bad = R"(--- model.json
{"schema": "shardc.manifest/v1",
 "params": {"w": {"shape": [8, 8], "dtype": "FP32"}}}
$ shardc manifest --manifest model.json
)",
               .good = R"(--- model.json
{"schema": "shardc.manifest/v1",
 "params": {"w": {"shape": [8, 8], "dtype": "F32"}}}
$ shardc manifest --manifest model.json
)"},
      CodePage{
          .code = &code::kOffsets,
          .what = "Reports tensors whose byte ranges overlap, leave bytes "
                  "between them, or end beyond the file.",
          .why = "Overlapping ranges would give two parameters the same bytes. "
                 "The safetensors format forbids gaps because they can hide "
                 "data.",
          .fix = "Write the checkpoint again. A range beyond the end is most "
                 "often an incomplete download.",
          .bad =
              R"($ printf '\154\0\0\0\0\0\0\0{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}\0\0\0\0\0\0\0\0\0\0\0\0' > model.safetensors
$ shardc manifest --manifest model.safetensors
)",
          .good =
              R"($ printf '\154\0\0\0\0\0\0\0{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}}\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' > model.safetensors
$ shardc manifest --manifest model.safetensors
)"},
      CodePage{
          .code = &code::kSize,
          .what = "Reports a tensor whose shape and data type take another "
                  "number of bytes than the file holds for it.",
          .why = "Slices are computed from the shape. With the wrong one, "
                 "every slice after the first would be read from the wrong "
                 "place.",
          .fix = "Correct the shape or the data type where the file is "
                 "written.",
          .bad =
              R"($ printf '\66\0\0\0\0\0\0\0{"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}\0\0\0\0\0\0\0\0' > model.safetensors
$ shardc manifest --manifest model.safetensors
)",
          .good =
              R"($ printf '\66\0\0\0\0\0\0\0{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}\0\0\0\0\0\0\0\0' > model.safetensors
$ shardc manifest --manifest model.safetensors
)"},
      CodePage{
          .code = &code::kAlignment,
          .what = "Reports a GGUF file whose `general.alignment` is not a "
                  "32-bit multiple of 8.",
          .why = "The offset of every tensor is rounded up to the alignment, "
                 "so a wrong one moves all data.",
          .fix = "Write the file again with an alignment of 32, the default.",
          .bad =
              R"($ printf 'GGUF\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\21\0\0\0\0\0\0\0general.alignment\4\0\0\0\3\0\0\0' > model.gguf
$ shardc manifest --manifest model.gguf
)",
          .good =
              R"($ printf 'GGUF\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\21\0\0\0\0\0\0\0general.alignment\4\0\0\0\40\0\0\0' > model.gguf
$ shardc manifest --manifest model.gguf
)"},
      CodePage{.code = &code::kPath,
               .what =
                   "Reports an index that names a file outside its own folder, "
                   "and a project that names one outside its repository, by an "
                   "absolute path, by `..` or by a symbolic link.",
               .why = "A checkpoint or a project from a stranger could "
                      "otherwise make the program read, and quote, any file "
                      "of the machine.",
               .fix = "Copy the file into the folder of the index and name it "
                      "without a path. For a project, move the file into the "
                      "repository, or pass `--allow-outside` if you trust the "
                      "project.",
               .bad = R"(--- model.safetensors.index.json
{"weight_map": {"w": "../model-00001-of-00001.safetensors"}}
$ shardc manifest --manifest model.safetensors.index.json
)",
               .good = R"(--- model.safetensors.index.json
{"weight_map": {"w": "model-00001-of-00001.safetensors"}}
$ shardc manifest --manifest model.safetensors.index.json
)"},
      CodePage{
          .code = &code::kTensorMissing,
          .what = "Reports a tensor that the index places in a file which does "
                  "not hold it.",
          .why = "The index and the files are from different checkpoints, or "
                 "one of them is incomplete.",
          .fix = "Copy the index and all its files again from one source.",
          .bad = R"(--- model.safetensors.index.json
{"weight_map": {"w": "model.safetensors", "v": "model.safetensors"}}
$ printf '\66\0\0\0\0\0\0\0{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}\0\0\0\0\0\0\0\0' > model.safetensors
$ shardc manifest --manifest model.safetensors.index.json
)",
          .good = R"(--- model.safetensors.index.json
{"weight_map": {"w": "model.safetensors"}}
$ printf '\66\0\0\0\0\0\0\0{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}\0\0\0\0\0\0\0\0' > model.safetensors
$ shardc manifest --manifest model.safetensors.index.json
)"},
      CodePage{
          .code = &code::kTensorExtra,
          .what = "Reports a tensor in a file that the index of the set does "
                  "not list, or a file of the same series that it does not "
                  "name.",
          .why = "Programs that load by the index would leave the tensor at "
                 "its initial value.",
          .fix = "Write the index again from the files, or copy both again "
                 "from one source.",
          .bad = R"(--- model.safetensors.index.json
{"weight_map": {"a": "model.safetensors"}}
$ printf '\154\0\0\0\0\0\0\0{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}}\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' > model.safetensors
$ shardc manifest --manifest model.safetensors.index.json
)",
          .good = R"(--- model.safetensors.index.json
{"weight_map": {"a": "model.safetensors", "b": "model.safetensors"}}
$ printf '\154\0\0\0\0\0\0\0{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}}\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' > model.safetensors
$ shardc manifest --manifest model.safetensors.index.json
)"},
  };
  return kPages;
}

}  // namespace shardc
