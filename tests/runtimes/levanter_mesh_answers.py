"""The newer form of Levanter's configuration, of the package as it is
published since its development moved."""

import levanter_answers


def asked():
    return levanter_answers.answers(
        ("marin-levanter", "marin-haliax"), levanter_answers.newer_config,
        levanter_answers.newer_mapping())


def record():
    yield "levanter/mesh", asked()
