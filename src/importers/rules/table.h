// The formats of `shardc import`, one line for each. Each line names a constant
// of the type Importer, which a source file of this folder defines. Define the
// macro SHARDC_IMPORT before including this file.
SHARDC_IMPORT(kMaxtext)
SHARDC_IMPORT(kMaxtextDump)
SHARDC_IMPORT(kLevanter)
SHARDC_IMPORT(kHlo)
SHARDC_IMPORT(kShardy)
SHARDC_IMPORT(kDtensor)
SHARDC_IMPORT(kHfTpPlan)
SHARDC_IMPORT(kEformer)
