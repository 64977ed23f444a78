// Macros for the examples of lints about a model's step. PAIR is a model with
// an embedding and two projections, and TABLE is a model with only an
// embedding. They are macros, because an example must be one string literal.
#ifndef SHARDC_LINT_RULES_STEP_EXAMPLE_H_
#define SHARDC_LINT_RULES_STEP_EXAMPLE_H_

#define SHARDC_EXAMPLE_PAIR_SECTION                                 \
  "model:\n"                                                        \
  "  dims: {d: hidden_size, f: intermediate_size, v: vocab_size}\n" \
  "  axes: {d: EMBED, f: MLP_INTERMEDIATE, v: VOCAB}\n"             \
  "  repeat: num_hidden_layers\n"                                   \
  "  params:\n"                                                     \
  "    embed: ['embed$', [v, d]]\n"                                 \
  "    up: ['layers\\.$i\\.up$', [d, f]]\n"                         \
  "    down: ['layers\\.$i\\.down$', [f, d]]\n"                     \
  "  begin:\n"                                                      \
  "    - x = lookup(embed, ids) @resid\n"                           \
  "  layer:\n"                                                      \
  "    - y = linear(x, up) @mlp\n"                                  \
  "    - y = linear(y, down)\n"                                     \
  "    - x = add(x, y) @resid\n"                                    \
  "  end:\n"                                                        \
  "    - logits = linear(x, embed) @logits\n"

#define SHARDC_EXAMPLE_PAIR_MANIFEST                                    \
  "{\"schema\": \"shardc.manifest/v1\", \"params\": {\n"                \
  "  \"embed\": {\"shape\": [1024, 256], \"dtype\": \"BF16\"},\n"       \
  "  \"layers.0.up\": {\"shape\": [256, 1024], \"dtype\": \"BF16\"},\n" \
  "  \"layers.0.down\": {\"shape\": [1024, 256], \"dtype\": \"BF16\"}}}\n"

#define SHARDC_EXAMPLE_PAIR_CONFIG                        \
  "{\"hidden_size\": 256, \"intermediate_size\": 1024,\n" \
  " \"vocab_size\": 1024, \"num_hidden_layers\": 1}\n"

// The beginning of a `model:` section, up to the key `params:`. An example adds
// its roles, then SHARDC_EXAMPLE_TABLE_STEP, then the ops of the key `end:`.
#define SHARDC_EXAMPLE_TABLE_SECTION          \
  "model:\n"                                  \
  "  dims: {d: hidden_size, v: vocab_size}\n" \
  "  repeat: num_hidden_layers\n"             \
  "  params:\n"

#define SHARDC_EXAMPLE_TABLE_STEP         \
  "  begin:\n"                            \
  "    - x = lookup(embed, ids) @resid\n" \
  "  layer: []\n"                         \
  "  end:\n"

#define SHARDC_EXAMPLE_TABLE_CONFIG                \
  "{\"hidden_size\": 256, \"vocab_size\": 1024,\n" \
  " \"num_hidden_layers\": 1}\n"

#endif  // SHARDC_LINT_RULES_STEP_EXAMPLE_H_
