// The formats of findings, one line each: the value of --format, the function
// that writes the format, which is in a .cc file of this folder, and whether
// the output depends on the names of the parameters (Finding::params). A file
// that includes this table must define SHARDC_FINDING_FORMAT first.
SHARDC_FINDING_FORMAT("text", FindingsText, false)
// `file:line:column: level: message [SHD101]`, as compilers print.
SHARDC_FINDING_FORMAT("concise", FindingsConcise, false)
SHARDC_FINDING_FORMAT("json", FindingsJson, true)
// SARIF 2.1.0 with every code as a rule. A finding's fingerprint is a digest
// that contains the names of its parameters.
SHARDC_FINDING_FORMAT("sarif", FindingsSarif, true)
// GitHub workflow commands. Errors come first, because GitHub shows only about
// ten.
SHARDC_FINDING_FORMAT("github", FindingsGithub, false)
// JUnit XML with one suite per file. Errors are failures. Warnings and notes
// pass, with their text.
SHARDC_FINDING_FORMAT("junit", FindingsJunit, false)
// A Markdown table, for summaries and comments.
SHARDC_FINDING_FORMAT("markdown", FindingsMarkdown, false)
