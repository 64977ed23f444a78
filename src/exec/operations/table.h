// The operations, one line each, in the order in which they are listed and run.
// Code that includes this list defines SHARDC_OPERATION first. Each name is a
// constant that a source in this folder defines.
SHARDC_OPERATION(kVanilla)
SHARDC_OPERATION(kSdpa)
SHARDC_OPERATION(kFlashAttention)
SHARDC_OPERATION(kRing)
SHARDC_OPERATION(kBlockSparse)
SHARDC_OPERATION(kFlashDecoding)
SHARDC_OPERATION(kUlysses)
SHARDC_OPERATION(kRaggedV2)
SHARDC_OPERATION(kRaggedV3)
SHARDC_OPERATION(kUnified)
SHARDC_OPERATION(kPagedFlash)
SHARDC_OPERATION(kLatent)
