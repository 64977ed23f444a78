// The list of checkpoint formats, in the order in which they are tried. Each
// line names a constant of the type Format, which a source file of this folder
// defines. Include this file after defining the macro SHARDC_STORED_FORMAT.
SHARDC_STORED_FORMAT(kDcpFolder)
SHARDC_STORED_FORMAT(kDcpSafetensors)
SHARDC_STORED_FORMAT(kOrbaxTree)
SHARDC_STORED_FORMAT(kOrbaxStep)
SHARDC_STORED_FORMAT(kOrbaxRoot)
SHARDC_STORED_FORMAT(kOcdbtDatabase)
SHARDC_STORED_FORMAT(kZarrFolder)
