"""Small changes to src/search."""

ROWS = [
    ('search/pricer.cc',
     'if (!applies) return;',
     '!applies', '!(!applies)', ''),
]
