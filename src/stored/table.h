// The formats of stored trees, one line each: a record defined by a source file
// of this folder, in the order in which a folder is tried. Include this file
// after defining SHARDC_STORED_FORMAT.
SHARDC_STORED_FORMAT(kDcpFolder)
SHARDC_STORED_FORMAT(kDcpSafetensors)
SHARDC_STORED_FORMAT(kOrbaxTree)
SHARDC_STORED_FORMAT(kOrbaxStep)
SHARDC_STORED_FORMAT(kOrbaxRoot)
SHARDC_STORED_FORMAT(kOcdbtDatabase)
SHARDC_STORED_FORMAT(kZarrFolder)
