"""Megatron-Core and vLLM run again on what shardc exports for them."""

import unittest

import megatron_vllm_answers
import records


class Peers(unittest.TestCase):
    def test_ranks_hold_what_is_recorded(self):
        record = records.load("tensor_parallel/megatron_vllm")
        cases = list(megatron_vllm_answers.answers())
        self.assertEqual(cases, record["cases"])
        print(f"{len(cases)} weights of Megatron-Core and vLLM: as recorded")


if __name__ == "__main__":
    unittest.main()
