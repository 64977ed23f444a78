"""Small changes to src/search."""

ROWS = [
    ('search/candidates.cc',
     'if (!applies) return;',
     '!applies', '!(!applies)', ''),
]
