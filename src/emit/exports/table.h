// The formats of `shardc export`, one line each: a record that a source of
// this folder defines. Read by whoever defines SHARDC_EXPORT.
SHARDC_EXPORT(kJax)
SHARDC_EXPORT(kJaxJson)
SHARDC_EXPORT(kShardy)
SHARDC_EXPORT(kHlo)
SHARDC_EXPORT(kOrbax)
SHARDC_EXPORT(kDtensor)
SHARDC_EXPORT(kMegatron)
SHARDC_EXPORT(kVllm)
SHARDC_EXPORT(kCsv)
SHARDC_EXPORT(kMarkdown)
SHARDC_EXPORT(kTree)
SHARDC_EXPORT(kDot)
