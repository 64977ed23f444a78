// The formats of findings, one line each: the value of --format, and the
// function that writes the format, which is in a .cc file of this folder. A
// file that includes this table must define SHARDC_FINDING_FORMAT first.
SHARDC_FINDING_FORMAT("text", FindingsText)
// `file:line:column: level: message [SHD101]`, as compilers print.
SHARDC_FINDING_FORMAT("concise", FindingsConcise)
SHARDC_FINDING_FORMAT("json", FindingsJson)
// SARIF 2.1.0 with every code as a rule.
SHARDC_FINDING_FORMAT("sarif", FindingsSarif)
// GitHub workflow commands. Errors come first, because GitHub shows only about
// ten.
SHARDC_FINDING_FORMAT("github", FindingsGithub)
// JUnit XML with one suite per file. Errors are failures. Warnings and notes
// pass, with their text.
SHARDC_FINDING_FORMAT("junit", FindingsJunit)
// A Markdown table, for summaries and comments.
SHARDC_FINDING_FORMAT("markdown", FindingsMarkdown)
