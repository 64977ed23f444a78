// The formats of findings, one line each: the name that --format takes, and
// the function that writes it, of a source in this folder. Read by whoever
// defines SHARDC_FINDING_FORMAT.
SHARDC_FINDING_FORMAT("text", FindingsText)
// `file:line:column: level: message [SHD101]`, as compilers print.
SHARDC_FINDING_FORMAT("concise", FindingsConcise)
SHARDC_FINDING_FORMAT("json", FindingsJson)
// SARIF 2.1.0 with every lint as a rule.
SHARDC_FINDING_FORMAT("sarif", FindingsSarif)
// Workflow commands, errors first, as GitHub shows only some.
SHARDC_FINDING_FORMAT("github", FindingsGithub)
// A suite per file; errors are failures, the rest passes with its text.
SHARDC_FINDING_FORMAT("junit", FindingsJunit)
// A table, for summaries and comments.
SHARDC_FINDING_FORMAT("markdown", FindingsMarkdown)
