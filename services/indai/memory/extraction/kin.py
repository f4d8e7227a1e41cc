"""Words for relatives, friends and animals in three languages, each with one English name."""

from __future__ import annotations

import re

_TABLE = """
brother: brother bhai bhaiya भाई भैया
sister: sister behen bahan behan didi बहन दीदी
mother: mother mom mum mummy maa amma mataji माँ मां अम्मा मम्मी
father: father dad papa pitaji पिता पिताजी पापा
wife: wife biwi patni पत्नी बीवी
husband: husband pati पति
son: son beta बेटा बेटे
daughter: daughter beti बेटी
friend: friend dost दोस्त saheli सहेली
boss: boss manager बॉस
grandmother: grandmother grandma dadi nani दादी नानी
grandfather: grandfather grandpa dada nana दादा नाना
uncle: uncle chacha mama tau चाचा मामा
aunt: aunt chachi mausi bua चाची मौसी बुआ
cousin: cousin कज़िन
partner: partner girlfriend boyfriend fiance fiancee
dog: dog puppy kutta kutte कुत्ता कुत्ते पिल्ला पिल्ले
cat: cat kitten billi बिल्ली
doctor: doctor डॉक्टर
teacher: teacher टीचर
"""
CANONICAL = {
    word: line.split(":")[0] for line in _TABLE.split("\n") if line for word in line.split(":")[1].split()
}
# One at a time: another name means another spouse.
SINGLE = frozenset({"wife", "husband", "mother", "father", "partner", "boss"})
WORDS = "|".join(sorted(map(re.escape, CANONICAL), key=len, reverse=True))
