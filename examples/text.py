"""Train on text with wrong labels: the Hugging Face Trainer with a tiny transformer, built without a download.

python examples/text.py    (pip install 'tnlpad[integrations]')
"""

import random
import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

from tnlpad import Decomposition, parameter_groups
from tnlpad.integrations.transformers import DecompositionCallback

WORDS = {"sport": ["goal", "match", "team", "coach", "win"], "food": ["bread", "soup", "salt", "oven", "taste"]}
FILLERS = ["the", "a", "of", "and", "very", "with", "today", "some", "good", "old"]
VOCABULARY = {word: k for k, word in enumerate([*FILLERS, *WORDS["sport"], *WORDS["food"]])}


def sentence(label: int) -> dict[str, object]:
    """Return ten words, three of which indicate the subject."""
    words = random.choices(list(WORDS.values())[label], k=3) + random.choices(FILLERS, k=7)
    random.shuffle(words)
    return {"input_ids": torch.tensor([VOCABULARY[word] for word in words]), "labels": label}


set_seed(1)
train, test = [sentence(k % 2) for k in range(600)], [sentence(k % 2) for k in range(300)]
for sample in train:
    if random.random() < 0.3:
        sample["labels"] = 1 - sample["labels"]

model = BertForSequenceClassification(
    BertConfig(
        vocab_size=len(VOCABULARY), hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=10, num_labels=2,
    )
)  # fmt: skip
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(), num_train_epochs=6, per_device_train_batch_size=32, per_device_eval_batch_size=300,
    use_cpu=True, save_strategy="no", logging_strategy="no", report_to=[], disable_tqdm=True,
)  # fmt: skip
model.to(arguments.device)  # before building the optimizer
optimizer = Decomposition(parameter_groups(model), torch.optim.AdamW, lr=2e-3, c1=1e-4, c2=1.0)
trainer = Trainer(
    model, arguments, train_dataset=train, optimizers=(optimizer, None), callbacks=[DecompositionCallback()]
)
trainer.train()
right = (trainer.predict(test).predictions.argmax(1) == [sample["labels"] for sample in test]).mean()
trainer.save_model()  # σ: an ordinary model, for from_pretrained()
print(f"{right:.1%} of the test sentences are right; saved in {arguments.output_dir}")
