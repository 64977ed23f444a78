// The formats of `shardc import`, one line each: a record that a source of
// this folder defines. Read by whoever defines SHARDC_IMPORT.
SHARDC_IMPORT(kPython)
SHARDC_IMPORT(kEformer)
